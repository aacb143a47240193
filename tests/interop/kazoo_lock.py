"""kazoo's Lock, as a program: says "ready", and does what the lines on its input say, until they end.

    kazoo_lock.py HOSTS PATH TTL              "lock" is answered with "locked CZXID", "release" with "released"
    kazoo_lock.py HOSTS PATH TTL COUNT FILE   at a line, so many locks in a row, and under each a file that nobody else may have made
"""

import os
import sys

from kazoo.client import KazooClient


def make_lock(client):
    # Without the pattern it walks past every node that is not its own.
    return client.Lock(sys.argv[2], extra_lock_patterns=["-lock-"])


def obey(client):
    lock = make_lock(client)
    for line in sys.stdin:
        if line.strip() == "lock":
            lock = make_lock(client)
            lock.acquire()
            _, stat = client.get(lock.path + "/" + lock.node)
            print("locked", stat.czxid, flush=True)
        else:
            lock.release()
            print("released", flush=True)


def cycle(client, count, path):
    sys.stdin.readline()
    for _ in range(count):
        with make_lock(client):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL))
            os.remove(path)
    print("done", flush=True)


client = KazooClient(hosts=sys.argv[1], timeout=float(sys.argv[3]))
client.start()
print("ready", flush=True)
if len(sys.argv) > 4:
    cycle(client, int(sys.argv[4]), sys.argv[5])
else:
    obey(client)
client.stop()
