"""The log: what was acknowledged is there, whatever happens; what is there is never overwritten."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from podium.formats.errors import FormatError
from podium.server.log import HEADER, Log, read_log

MOST = 1_000_000


def event(number):
    return {"kind": "click", "number": number}


def numbers(path):
    return [record["number"] for record in read_log(path)]


def test_what_is_appended_is_read_back_in_order(tmp_path):
    path = tmp_path / "log.jsonl"
    log = Log(path, MOST)
    log.append([event(1), event(2)]).result(10)
    log.append([event(3)])
    log.close()
    again = Log(path, MOST)
    again.append([event(4)]).result(10)
    again.close()
    assert numbers(path) == [1, 2, 3, 4]


def test_many_threads_append_whole_records(tmp_path):
    path = tmp_path / "log.jsonl"
    log = Log(path, MOST)

    def work(thread):
        for number in range(50):
            log.append([event(100 * thread + number)]).result(10)

    threads = [threading.Thread(target=work, args=(one,)) for one in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()
    found = numbers(path)
    assert sorted(found) == sorted(100 * thread + number for thread in range(6) for number in range(50))
    for thread in range(6):  # each in its order
        assert [n for n in found if n // 100 == thread] == [100 * thread + number for number in range(50)]


@pytest.mark.parametrize("kept", [0, 1, 5, 17])
def test_a_torn_record_is_cut_off_and_all_before_it_is_kept(tmp_path, kept):
    path = tmp_path / "log.jsonl"
    log = Log(path, MOST)
    log.append([event(1), event(2)]).result(10)
    log.close()
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"kind":"click","number":3}'[:kept])
    assert numbers(path) == [1, 2]
    if kept:
        with pytest.warns(UserWarning, match=f"not complete \\({kept} bytes\\)"):
            log = Log(path, MOST)
    else:
        log = Log(path, MOST)
    log.append([event(4)]).result(10)
    log.close()
    assert numbers(path) == [1, 2, 4]


@pytest.mark.parametrize("content", [b"my notes\n", b"{}\n", b"x" * 100_000])
def test_a_file_with_something_else_is_refused_and_left_as_it_is(tmp_path, content):
    path = tmp_path / "notes.txt"
    path.write_bytes(content)
    with pytest.raises(FormatError, match="holds something else than a log"):
        Log(path, MOST)
    assert path.read_bytes() == content
    with pytest.raises(FormatError, match="is no log of podium serve"):
        list(read_log(path))


def test_a_log_has_one_writer(tmp_path):
    path = tmp_path / "log.jsonl"
    log = Log(path, MOST)
    with pytest.raises(ValueError, match="written by another process"):
        Log(path, MOST)
    log.close()
    Log(path, MOST).close()


def test_what_does_not_fit_is_refused_and_the_file_stays_whole(tmp_path):
    path = tmp_path / "log.jsonl"
    log = Log(path, 200)
    log.append([event(1)]).result(10)
    with pytest.raises(OSError, match="limit of 200 bytes"):
        log.append([{"kind": "click", "text": "x" * 300}]).result(10)
    log.append([event(2)]).result(10)
    log.close()
    assert numbers(path) == [1, 2]


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from podium.server.log import Log
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
log = Log(path, 10**9)
log.append([{"kind": "click", "number": 1}]).result(10)
resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, resource.RLIM_INFINITY))
try:
    log.append([{"kind": "click", "number": 2}]).result(10)
except OSError as error:
    print("refused", error.errno is not None)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.append([{"kind": "click", "number": 3}]).result(10)
log.close()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limits on files here")
def test_a_write_that_fails_in_the_middle_leaves_no_half_record(tmp_path):
    path = tmp_path / "log.jsonl"
    ended = subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, timeout=60)
    assert ended.stdout == "refused True\n", ended.stderr
    assert numbers(path) == [1, 3]


KILLED = """
import sys
from pathlib import Path
from podium.server.log import Log
log = Log(Path(sys.argv[1]), 10**9)
number = 0
while True:
    log.append([{"kind": "click", "number": number, "fill": "x" * (number % 5_000)}]).result(10)
    print(number, flush=True)
    number += 1
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
@pytest.mark.parametrize("after", [1, 40, 200])
def test_kill_loses_nothing_that_was_acknowledged(tmp_path, after):
    path = tmp_path / "log.jsonl"
    with subprocess.Popen([sys.executable, "-c", KILLED, str(path)], stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if int(line) >= after:
                os.kill(process.pid, signal.SIGKILL)
                break
        acknowledged = int((process.stdout.read().split() or [line])[-1])
    found = numbers(path)
    assert found == list(range(len(found)))
    assert len(found) > acknowledged


def test_damaged_records_are_named_by_line(tmp_path):
    import orjson

    path = tmp_path / "log.jsonl"
    path.write_bytes(orjson.dumps(HEADER) + b'\n{"kind":"click"}\n{"kind"\n')
    with pytest.raises(FormatError, match=r"line 3: expected a record in JSON"):
        list(read_log(path))
    path.write_bytes(orjson.dumps(HEADER) + b"\n[1]\n")
    with pytest.raises(FormatError, match=r"line 2: expected a record with a kind"):
        list(read_log(path))
