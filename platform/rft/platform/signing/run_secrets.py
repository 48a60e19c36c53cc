"""Everything secret that a run is handed over its pipe: the job's own header values and what the platform adds."""

from psycopg import AsyncConnection
from psycopg.rows import TupleRow

from rft.core.spec import RunSecrets
from rft.platform.settings import Settings
from rft.platform.signing.service import active_secrets
from rft.platform.store.secret_box import SecretBox


async def whole_run_secrets(
    connection: AsyncConnection[TupleRow], sealed: bytes | None, box: SecretBox, settings: Settings
) -> RunSecrets:
    """The job's sealed secrets, the active signing secrets, and the keys of judge, gateways and engine.

    Raises SecretsUnreadable.
    """
    own = RunSecrets() if sealed is None else box.unseal(sealed)
    return own.model_copy(
        update={
            "signing_secrets": await active_secrets(connection, box),
            "judge_api_key": settings.judge_api_key,
            "gateway_token": settings.gateway_token,
            "vllm_api_key": settings.vllm_api_key,
        }
    )
