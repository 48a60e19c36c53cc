"""What the hosted original's python graders may import, they may import here: every package, and it computes."""

import pytest

from rft.core.grade import Grade
from rft.core.graders import PythonGrader
from rft.grader_gateway.builtin.python_code import PythonCode
from rft.grader_gateway.builtin.sandbox.preload import PACKAGES
from rft.grader_gateway.grader import close_grader
from tests.shared.finished import finished

USES = {
    "ast_grep_py": "ast_grep_py.SgRoot('a = 1', 'python').root().find(pattern='a = $B')['B'].text() == '1'",
    "deepdiff": "bool(deepdiff.DeepDiff({'a': 1}, {'a': 2}))",
    "jsonschema": "jsonschema.Draft202012Validator({'type': 'string'}).is_valid('a')",
    "nltk": "nltk.edit_distance('cat', 'cart') == 1",
    "numpy": "numpy.linalg.det([[2.0, 0.0], [0.0, 2.0]]) > 3.9",
    "pandas": "pandas.DataFrame({'a': [1, 2]})['a'].sum() == 3",
    "pydantic": "pydantic.TypeAdapter(int).validate_python('4') == 4",
    "rapidfuzz": "rapidfuzz.fuzz.ratio('a', 'a') == 100",
    "rdkit": "rdkit.Chem.MolFromSmiles('CCO').GetNumAtoms() == 3",
    "rouge_score": "rouge_score.rouge_scorer.RougeScorer(['rouge1']).score('a', 'a')",
    "skbio": "skbio.DNA('ACGT').gc_content() == 0.5",
    "scipy": "scipy.stats.spearmanr([1, 2, 3], [1, 2, 3])[0] > 0.99",
    "sklearn": "sklearn.metrics.f1_score([0, 1], [0, 1]) == 1",
    "sqlparse": "sqlparse.parse('select 1')[0].get_type() == 'SELECT'",
    "sympy": "sympy.simplify('x + x - 2 * x') == 0",
    "yaml": "yaml.safe_load('a: [1, 2]') == {'a': [1, 2]}",
}


def test_no_package_is_forgotten() -> None:
    assert set(USES) == PACKAGES


WITHOUT_DATA = {
    "nltk.tokenize": "nltk.tokenize.NLTKWordTokenizer().tokenize('Mr. Day left.') == ['Mr.', 'Day', 'left', '.']",
    "nltk.tokenize.punkt": "nltk.tokenize.PunktSentenceTokenizer().tokenize('It is. We go.') == ['It is.', 'We go.']",
    "nltk.stem": "nltk.stem.SnowballStemmer('english').stem('running') == nltk.stem.PorterStemmer().stem('runs')",
    "sklearn.feature_extraction.text": "'the' in sklearn.feature_extraction.text.ENGLISH_STOP_WORDS",
}
"""What the documents name in place of NLTK's data, which no package brings."""


CHECKED = sorted((USES | WITHOUT_DATA).items(), reverse=True)
"""So that within a part of these no package comes after another that imports it."""
PARTS = 4
PROGRAM = """
def grade(sample, item):
    failed = 0
    for number, compute in enumerate(uses):
        try:
            failed |= 0 if compute() else 1 << number
        except Exception:
            failed |= 1 << number
    return float(failed)
"""


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
async def test_each_package_of_the_contract_computes(part: int) -> None:
    packages, uses = zip(*CHECKED[part::PARTS], strict=True)
    listed = "".join(f"    lambda: {use},\n" for use in uses)
    source = "".join(f"import {package}\n" for package in packages) + f"uses = [\n{listed}]\n{PROGRAM}"
    grader = PythonCode(PythonGrader(name="code", source=source), processes=1)
    try:
        grade = await grader.grade(finished("4"), item={}, trace_id="trace_1")
    finally:
        await close_grader(grader)
    assert isinstance(grade, Grade), grade
    failed = int(grade.reward)
    assert [package for number, package in enumerate(packages) if failed >> number & 1] == []
