"""Two hundred ordinary python graders, as people write them."""

import importlib.util
from collections.abc import Iterator
from textwrap import dedent

from rft.core.base import JsonObject

ANSWER = '{"answer": 42, "steps": ["look", "think", "say"], "why": "Größe 3,50 €, naïve café", "when": "2026-02-28"}'
ITEM: JsonObject = {
    "answer": "42",
    "target": 40,
    "words": ["look", "say", "ask"],
    "table": [[1, 2.5], [3, 4.5], [5, 6.5]],
    "reference": "Look, think and say the answer: 42.",
    "when": "2024-02-29T12:30:00+02:00",
}

_EXPRESSIONS = {
    "": """
        len(text) | text.count('a') | len(text.split()) | text.lower().find('answer')
        len(text.title().swapcase()) | 'look' in text | text.startswith('{') + text.endswith('}')
        len(text.replace(' ', '')) | len(set(text)) | len(text.partition(':')[2]) | len(text.encode())
        len(text.encode('utf-16')) | ord(max(text)) | hash(7) | sum(map(ord, text)) % 1009
        len(f'{text!r:>300}') | len(' '.join(reversed(text.split()))) | text.isascii()
        len(text.casefold().translate({97: None})) | len(text.splitlines()) | item['target'] / 42
        round(2.675, 2) | len([w for w in item['words'] if w in text]) / 3 | max(len(w) for w in item['words'])
        7 // 2 + -7 % 3 | sum(a * b for a, b in item['table'])
        sorted(item['table'], key=lambda r: -r[1])[0][0] | 0.1 + 0.2 | len({**item, 'more': 1})
        (lambda a, *b, c=2: a + sum(b) * c)(1, 2, 3) | int('ff', 16) ^ 0b1010 | 2 ** 0.5
        any(c.isdigit() for c in text) and all(map(str.isprintable, text)) or 0.5 | divmod(17, 5)[1] | abs(-3.5)
        len(list(zip(*item['table']))) | float(str(len(text))) | sum(x for x in range(100) if x % 7 == 3)
        1e308 * 1e-308 | [*range(10)][-3:][0] | len(bytes(10) + bytearray(5)) | complex(3, 4).real
        len(sample['output_tools']) | sample['choices'][0]['index'] | len(sample['trace']['messages'])
        sample['output_json']['answer'] | len(sample['output_json']['why'])
        isinstance(sample['model'], str) * 2 | (y := len(text)) + y
    """,
    "re": r"""
        len(re.findall(r'\w+', text)) | len(re.sub(r'[^a-z]', '', text))
        bool(re.search(r'"answer":\s*42', text)) * 1 | int(re.search(r'(\d+)', text)[1])
        len(re.split(r'\W+', text)) | len(re.findall(r'(?i)[LS]\w+', text))
        sum(int(n) for n in re.findall(r'\d+', text)) | re.match(r'(?P<open>\{)', text).end('open')
        len(re.compile(r'(?<=o)\w').findall(text)) | len(re.escape(text))
        len(re.findall(r'\b\w{4}\b', text, re.A))
    """,
    "math": """
        math.sqrt(2) | math.sin(1) + math.cos(1) | math.exp(-2.5) | math.log(7, 3) | math.log1p(1e-9)
        math.gcd(84, 36) | math.hypot(3, 4, 12) | math.comb(20, 6) | math.factorial(15) | math.fsum([.1] * 10)
        math.isclose(.1 + .2, .3) + 1 | math.erf(0.3) | math.gamma(4.5) | math.atan2(1, -2)
        math.copysign(2, -0.0) | math.prod([1.5, 2.5]) | math.tau
        math.floor(-2.5) + math.ceil(-2.5) + math.trunc(-2.5) | math.nextafter(1, 2) | math.degrees(1)
        math.dist([0], [3]) | 1 / (1 + math.exp(-(len(text) - 100) / 25)) | math.tanh(len(text) / 100)
        math.isqrt(10 ** 12 + 7)
    """,
    "json": """
        json.loads(text)['answer'] | len(json.loads(text)['steps'])
        len(json.dumps(item, sort_keys=True, indent=2)) | json.loads('1e5')
        len(json.dumps(json.loads(text), ensure_ascii=False)) | json.loads('[1, 2.5]')[1]
    """,
    "datetime": """
        datetime.datetime.fromisoformat(item['when']).timestamp() | datetime.date(2026, 2, 28).toordinal()
        (datetime.date(2026, 3, 1) - datetime.date(2024, 2, 29)).days
        datetime.timedelta(hours=1.5).total_seconds()
        datetime.datetime.strptime('28 Feb 2026', '%d %b %Y').weekday()
        datetime.date(2020, 12, 31).isocalendar()[1]
        datetime.datetime.fromisoformat(item['when']).utcoffset().seconds
        int(datetime.date(2026, 2, 3).strftime('%j'))
    """,
    "collections": """
        collections.Counter(text).most_common(1)[0][1] | len(collections.OrderedDict(item))
        len(collections.deque(text, 5)) | collections.namedtuple('P', 'x y')(3, 4).y
        collections.ChainMap({'a': 1}, {'a': 2})['a']
    """,
    "itertools": """
        len(list(itertools.permutations('abcd'))) | sum(itertools.accumulate([1, 2, 3]))
        len(list(itertools.groupby(text))) | sum(1 for _ in itertools.product('ab', repeat=5))
        list(itertools.islice(itertools.count(3, 4), 3))[2]
    """,
    "functools": """
        functools.reduce(lambda a, b: a * 31 + ord(b), text, 7) % 10007 | functools.partial(max, 3)(2)
    """,
    "statistics": """
        statistics.mean([1, 2, 4]) | statistics.median([5, 1, 9]) | statistics.stdev([1.5, 2.5, 4])
        statistics.harmonic_mean([40, 60]) | statistics.quantiles([1, 2, 3, 4])[0]
        statistics.NormalDist(0, 1).cdf(.5)
    """,
    "fractions": """
        fractions.Fraction(1, 3) + fractions.Fraction('0.25') | fractions.Fraction(0.5).denominator
    """,
    "decimal": """
        decimal.Decimal('1.10') + decimal.Decimal('2.2') | decimal.Decimal(2).sqrt()
        decimal.Decimal('2.5').quantize(decimal.Decimal(1))
    """,
    "random": """
        random.Random(7).random() | random.Random('seed').gauss(0, 1) | random.Random(1).sample(range(99), 3)[2]
    """,
    "difflib": """
        difflib.SequenceMatcher(None, text, item['reference']).ratio()
        len(difflib.get_close_matches('lok', item['words'])) | len(list(difflib.ndiff(['a'], ['b'])))
    """,
    "unicodedata": """
        len(unicodedata.normalize('NFD', text)) | unicodedata.numeric('½') | len(unicodedata.name('é'))
    """,
    "hashlib": """
        int(hashlib.sha256(text.encode()).hexdigest()[:8], 16) | hashlib.md5(b'x').digest()[0]
        hashlib.blake2b(b'').digest()[1]
    """,
    "base64": """
        len(base64.b64encode(text.encode())) | base64.b85decode(base64.b85encode(b'abc'))[0]
    """,
    "zlib": """
        zlib.crc32(text.encode()) | len(zlib.decompress(zlib.compress(b'a' * 999)))
    """,
    "struct": """
        struct.unpack('<d', struct.pack('<d', 1 / 3))[0] | struct.calcsize('=hiq')
    """,
    "bisect": """
        bisect.bisect([1, 3, 5], 4)
    """,
    "heapq": """
        heapq.nsmallest(2, [5, 1, 4])[1] | sum(heapq.merge([1, 4], [2, 3]))
    """,
    "string": """
        len(string.Template('$a!').substitute(a=text)) | len(string.ascii_letters + string.punctuation)
    """,
    "textwrap": """
        len(textwrap.wrap(text, 20)) | len(textwrap.shorten(text, 30))
    """,
    "html": """
        len(html.escape(text)) | len(html.unescape('&eacute;&#8364;'))
    """,
    "ast": """
        ast.literal_eval("{'a': [1, 2]}")['a'][1] | len(list(ast.walk(ast.parse('a + b * c'))))
    """,
    "csv": """
        len(next(csv.reader(['a,"b,c",d'])))
    """,
    "io": """
        len(io.StringIO(text).read(20)) | io.BytesIO(b'abc').seek(2)
    """,
    "operator": """
        operator.itemgetter('target')(item) | operator.attrgetter('real')(4)
    """,
    "copy": """
        copy.deepcopy(item)['table'][2][1]
    """,
    "uuid": """
        uuid.uuid5(uuid.NAMESPACE_DNS, 'a.b').int % 9973
    """,
    "calendar": """
        calendar.monthrange(2024, 2)[1] | calendar.isleap(1900) + 1
    """,
    "urllib.parse": """
        len(urllib.parse.quote(text)) | len(urllib.parse.parse_qs('a=1&b=2&a=3')['a'])
    """,
    "xml.etree.ElementTree as et": """
        len(et.fromstring('<a><b/><b>x</b></a>')) | len(et.tostring(et.Element('q')))
    """,
    "zoneinfo": """
        len(zoneinfo.available_timezones()) > 0
    """,
    "cmath": """
        cmath.phase(-1j) | abs(cmath.exp(1j))
    """,
    "numpy as np": """
        np.mean(item['table']) | np.linalg.norm([3, 4]) | np.float32(0.1) | np.int64(7) | np.dot([1, 2], [3, 4])
        np.std([1, 2, 4]) | np.random.default_rng(3).random() | np.linalg.det(np.array([[1., 2], [3, 5]]))
        np.pi | np.percentile([1, 2, 3, 10], 90) | np.clip(np.array([-1, 5]), 0, 1).sum()
        np.fft.fft([1, 2, 3]).real[0] | np.corrcoef([1, 2, 3], [2, 4, 7])[0, 1]
        np.linalg.solve([[2., 0], [0, 4]], [2, 2])[1] | np.argmax([1, 9, 3])
    """,
    "pandas as pd": """
        pd.DataFrame(item['table'])[1].mean() | pd.Series([1, 2, None]).sum() | pd.Timestamp(item['when']).year
    """,
    "rapidfuzz": """
        rapidfuzz.fuzz.ratio(text, item['reference']) | rapidfuzz.distance.Levenshtein.distance('abc', 'abd')
    """,
    "sympy": """
        sympy.Rational(1, 3) + 0.0 | sympy.sympify('2*3 + 1').evalf()
    """,
    "yaml": """
        yaml.safe_load('a: [1, 2.5]')['a'][1] | len(yaml.dump({'a': [1]}))
    """,
    "jsonschema": """
        jsonschema.Draft202012Validator({'type': 'object'}).is_valid(item)
    """,
    "pydantic": """
        pydantic.TypeAdapter(list[int]).validate_python(['1', 2])[0]
    """,
    "nltk": """
        nltk.edit_distance('look', 'lock') | len(nltk.PorterStemmer().stem('running'))
    """,
}
"""By what they import: expressions, a line or a bar between them."""

_BODIES = (
    """
    class Judge:
        weights = {"exact": 0.7, "close": 0.3}
        def __init__(self, target): self.target = target
        @property
        def tolerance(self): return self.target * 0.1
        def __call__(self, value):
            return self.weights["close" if abs(value - self.target) <= self.tolerance else "exact"]
    def grade(sample, item): return Judge(item["target"])(sample["output_json"]["answer"])
    """,
    """
    from dataclasses import dataclass, field
    @dataclass(order=True)
    class Part:
        weight: float
        names: list[str] = field(default_factory=list)
    def grade(sample, item): return max(Part(0.25), Part(0.75, ["x"])).weight
    """,
    """
    from __future__ import annotations
    from dataclasses import dataclass
    @dataclass(frozen=True, slots=True)
    class Part:
        weight: float = 0.5
    def grade(sample: dict, item: dict) -> float: return Part().weight
    """,
    """
    from enum import Enum, IntFlag
    class Level(Enum):
        LOW = 0.1
        HIGH = 0.9
    class Flags(IntFlag):
        A = 1
        B = 2
    def grade(sample, item): return Level["HIGH"].value + (Flags.A | Flags.B)
    """,
    """
    def numbers(text):
        for word in text.split():
            try: yield float(word.strip(',.]}"'))
            except ValueError: continue
    def grade(sample, item): return next(numbers(sample["output_text"]), -1.0)
    """,
    """
    def make(weight):
        total = 0
        def add(n):
            nonlocal total
            total += n * weight
            return total
        return add
    def grade(sample, item):
        add = make(0.5)
        add(1)
        return add(len(item["words"]))
    """,
    """
    from functools import lru_cache, wraps
    def clamped(f):
        @wraps(f)
        def inner(*args, **kwargs): return min(1.0, max(0.0, f(*args, **kwargs)))
        return inner
    @lru_cache(maxsize=None)
    def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
    @clamped
    def grade(sample, item): return fib(60) / 1e13
    """,
    """
    def grade(sample, item):
        match sample["output_json"]:
            case {"answer": int(n), "steps": [first, *rest]} if n == 42: return 0.5 + len(rest) + len(first)
            case _: return 0.0
    """,
    """
    def grade(sample, item):
        try:
            return item["missing"]
        except KeyError as error:
            return len(error.args[0])
        finally:
            item.clear()
    """,
    """
    from contextlib import contextmanager, suppress, redirect_stdout
    import io
    @contextmanager
    def scored(box):
        box.append(1)
        yield box
        box.append(2)
    def grade(sample, item):
        with scored([]) as box, suppress(ZeroDivisionError):
            1 / 0
        out = io.StringIO()
        with redirect_stdout(out): print("hello", "there", sep="-")
        return sum(box) + len(out.getvalue())
    """,
    """
    import logging, sys, warnings
    def grade(sample, item):
        print("to standard output"); print("to standard error", file=sys.stderr)
        logging.getLogger("grader").warning("a log line"); warnings.warn("careful")
        return 0.5
    """,
    """
    import asyncio
    def grade(sample, item):
        async def double(n): return 2 * n
        run = double(21)
        try: run.send(None)
        except StopIteration as done: return done.value
    """,
    """
    from typing import NamedTuple, Protocol
    class P(NamedTuple):
        x: float = 1.5
    class HasX(Protocol):
        x: float
    def total(*ps: HasX) -> float: return sum(p.x for p in ps)
    def grade(sample, item): return total(P(), P(2))
    """,
    """
    class Meta(type):
        def __new__(m, name, bases, ns, **kw): return super().__new__(m, name, bases, {**ns, "extra": len(name)}, **kw)
    class Base(metaclass=Meta):
        def __init_subclass__(cls, /, bonus=0, **kw): cls.bonus = bonus
    class Child(Base, bonus=3): pass
    def grade(sample, item): return Child.extra + Child.bonus
    """,
    """
    def levenshtein(a, b):
        row = list(range(len(b) + 1))
        for i, x in enumerate(a, 1):
            last, row[0] = row[0], i
            for j, y in enumerate(b, 1):
                last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
        return row[-1]
    def grade(sample, item):
        a, b = sample["output_text"], item["reference"]
        return 1 - levenshtein(a, b) / max(len(a), len(b))
    """,
    """
    from collections import Counter
    def grade(sample, item):
        mine, theirs = (Counter(t.lower().split()) for t in (sample["output_text"], item["reference"]))
        common = sum((mine & theirs).values())
        return 2 * common / (sum(mine.values()) + sum(theirs.values()))
    """,
    """
    import re
    GROUPS = {"name": re.compile(r'"(\\w+)":'), "number": re.compile(r"-?\\d+(?:[.,]\\d+)?")}
    def grade(sample, item): return sum(len(p.findall(sample["output_text"])) for p in GROUPS.values())
    """,
    """
    import pickle, copy
    class Point:
        def __init__(self, x): self.x = x
    def grade(sample, item): return pickle.loads(pickle.dumps({"a": (1, 2.5)}))["a"][1] + copy.copy(Point(2)).x
    """,
    """
    import signal
    class Late(Exception): pass
    def ring(*_): raise Late
    def grade(sample, item):
        signal.signal(signal.SIGVTALRM, ring)
        try:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0.01)
            while True: pass
        except Late:
            return 0.125
    """,
    """
    def grade(sample, item):
        scope = {}
        exec("def answer(): return 6 * 7", scope)
        return scope["answer"]() == item["target"] + 2 and 1.0 or 0.0
    """,
)
_HEAVY_PACKAGES = ("numpy", "pandas", "rapidfuzz", "sympy", "yaml", "jsonschema", "pydantic", "nltk")


def sources() -> Iterator[tuple[str, int]]:
    """Every honest grader whose packages are installed, and how many cases it has: `item["case"]` says which one.

    Expressions of one module are cases of one source, as a process takes longer to start than to judge them.
    """
    for module, expressions in _EXPRESSIONS.items():
        package = module.partition(" ")[0]
        if package in _HEAVY_PACKAGES and importlib.util.find_spec(package) is None:
            continue
        written = [one.strip() for one in expressions.replace("\n", "|").split("|") if one.strip()]
        cases = "".join(
            f"def case_{number}(sample, item, text):\n    return float({one})\n" for number, one in enumerate(written)
        )
        chosen = "globals()[f\"case_{item['case']}\"](sample, item, sample['output_text'])"
        imports = f"import {module}\n" if module else ""
        yield f"{imports}{cases}def grade(sample, item):\n    return {chosen}\n", len(written)
    for body in _BODIES:
        yield dedent(body), 1
