"""The Celery application, without its tasks: what publishes needs no more, and `worker.tasks` adds them."""

from celery import Celery

from rft.core.broker_options import is_redis, transport_options
from rft.platform.queue.messages import QUEUES
from rft.platform.settings import Settings, settings


class NoServer(RuntimeError):
    """The process was started without the address of a server it needs."""


def configuration(wanted: Settings) -> dict[str, object]:
    """Celery's settings. Raises NoServer when there is no broker."""
    if wanted.broker_url is None:
        raise NoServer("BROKER_URL is not set; `rft up` sets it for the processes it starts")
    return {
        "broker_url": wanted.broker_url,
        "broker_transport_options": transport_options(wanted.broker_url),
        "broker_connection_retry_on_startup": True,
        "broker_connection_max_retries": None,
        # What Redis refuses (no replicas, no memory, cannot save) counts as an error of the channel, and passes.
        "broker_channel_error_retry": True,
        "task_ignore_result": True,
        "task_acks_late": False,
        "task_publish_retry": False,
        "task_routes": {name: {"queue": queue} for name, queue in QUEUES.items()},
        "task_default_queue": "control",
        "task_serializer": "json",
        "accept_content": ["json"],
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": is_redis(wanted.broker_url),
        "worker_send_task_events": True,
        "task_send_sent_event": True,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
    }


app = Celery("rft", set_as_current=False)
app.add_defaults(lambda: configuration(settings()))
