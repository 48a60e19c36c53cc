"""The Celery application, without its tasks: what publishes needs no more, and `worker.tasks` adds them."""

from celery import Celery

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
        "broker_transport_options": _transport_options(wanted.broker_url),
        "broker_connection_retry_on_startup": True,
        "task_ignore_result": True,
        "task_acks_late": False,
        "task_publish_retry": False,
        "task_routes": {name: {"queue": queue} for name, queue in QUEUES.items()},
        "task_default_queue": "control",
        "task_serializer": "json",
        "accept_content": ["json"],
        "worker_prefetch_multiplier": 1,
        "worker_disable_prefetch": _is_redis(wanted.broker_url),
        "worker_send_task_events": True,
        "task_send_sent_event": True,
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
    }


def _is_redis(url: str) -> bool:
    return url.startswith(("redis", "rediss", "sentinel"))


def _transport_options(url: str) -> dict[str, object]:
    if not _is_redis(url):
        return {}
    return {
        "visibility_timeout": 3600,
        "unacked_restore_interval": 10,
        "unacked_restore_throttle": 1,
        "socket_keepalive": True,
        "health_check_interval": 25,
        "socket_timeout": 30,
        "socket_connect_timeout": 5,
    }


app = Celery("rft", set_as_current=False)
app.add_defaults(lambda: configuration(settings()))
