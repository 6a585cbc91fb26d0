"""The same application as tasks of celery, with a folder as their broker."""

from celery import Celery
from celery.signals import worker_process_shutdown

from tests.contract.programs.application import answered as answer
from tests.contract.programs.application import monitor

app = Celery("tasks", broker="filesystem://")
app.conf.update(
    broker_transport_options={
        "data_folder_in": "broker",
        "data_folder_out": "broker",
        "control_folder": "broker",
        "polling_interval": 0.02,
    },
    task_ignore_result=True,
    worker_hijack_root_logger=False,
)


@app.task(name="answered")
def answered(number: int) -> None:
    """Answer one question."""
    answer(number)


@worker_process_shutdown.connect
def closed(**_options: object) -> None:
    """Close the monitor, since the processes of a pool run no exit handler."""
    monitor.close(5)
