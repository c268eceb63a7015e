"""A worker of two that checks its TF_CONFIG and talks to its peer over their ports; then does as it is told.

python3 peers.py            both end with 0
python3 peers.py hold       both go on until the file `go` is beside the script
python3 peers.py fail N     worker N ends with 3, the other one goes on
"""

import json
import os
import socket
import sys
import time


def said_of_us():
    config = json.loads(os.environ["TF_CONFIG"])
    workers, task = config["cluster"]["worker"], config["task"]
    assert set(config) == {"cluster", "task"}
    assert task == {"type": "worker", "index": int(os.environ["ORCH_NODE_RANK"])}
    assert len(workers) == int(os.environ["ORCH_NODES"]) == len(set(workers))
    assert os.environ["ORCH_CHIEF"] == workers[0]
    assert os.environ["ORCH_WORKERS"] == ",".join(workers)
    return workers, task["index"]


def where(end):
    address, _, port = end.rpartition(":")
    return address.strip("[]"), int(port)


def greet(end, rank):
    for _ in range(200):
        try:
            with socket.create_connection(where(end), timeout=5) as link:
                link.sendall(b"hello from %d\n" % rank)
                return link.makefile().readline().strip()
        except OSError:
            time.sleep(0.1)
    raise SystemExit("no peer at " + end)


def answer(server, rank):
    link, _ = server.accept()
    with link:
        heard = link.makefile().readline().strip()
        link.sendall(b"hello from %d\n" % rank)
    return heard


def main():
    workers, rank = said_of_us()
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("", where(workers[rank])[1]))
        server.listen(1)
        heard = answer(server, rank) if rank == 0 else greet(workers[0], rank)
    print(f"worker {rank} at {workers[rank]} heard: {heard}", flush=True)
    with open("result", "w") as file:
        file.write(os.environ.get("ORCH_ATTEMPT", "") + " " + heard + "\n")
    again = sys.argv[1:2] == ["once"] and os.environ["ORCH_ATTEMPT"] != "0"
    if sys.argv[1:2] in (["fail"], ["once"]) and rank == int(sys.argv[2]) and not again:
        sys.exit(3)
    while sys.argv[1:] and not again and not os.path.exists("go"):
        time.sleep(0.1)


main()
