"""Answers in greenlets of a process in which gevent has replaced threads and sockets."""

from gevent import monkey

monkey.patch_all()

import gevent  # noqa: E402

from tests.contract.programs.application import answered  # noqa: E402

gevent.joinall([gevent.spawn(answered, number) for number in range(11)], raise_error=True)
