# SPDX-License-Identifier: MIT
"""An HTTP server on a Unix socket that takes and gives JSON, one thread a connection, and the client
that loads it: json-server.py serve SOCKET | load SOCKET REQUESTS."""

import http.server
import json
import os
import socket
import socketserver
import sys
import threading

CONNECTIONS = 4
KEPT = 200


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    documents, lock, answered = {}, threading.Lock(), 0


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/stop":
            threading.Thread(target=self.server.shutdown).start()
            return self.answer({"answered": self.server.answered})
        records = [r for r in document["records"] if r["id"] % 3]
        for record in records:
            record["label"] = f"{record['name']} of {document['number']}"
            record["total"] = sum(record["values"])
        with self.server.lock:
            self.server.answered += 1
            self.server.documents[document["number"] % KEPT] = document
            older = self.server.documents.get(document["number"] * 7 % KEPT, document)
        self.answer({"number": document["number"], "records": records, "older": older["records"][:20]})

    def answer(self, value):
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self):
        return "local"

    def log_message(self, *_):
        pass


def request(path, value):
    body = json.dumps(value).encode()
    return f"POST {path} HTTP/1.1\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def answer(stream):
    length = 0
    while (line := stream.readline().strip()):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    return stream.read(length)


def document(number):
    return {"number": number,
            "records": [{"id": i, "name": f"record {i * 7919 % 1000}", "active": i % 2 == 0,
                         "values": list(range(i % 17)), "note": "x" * (i * 31 % 200)}
                        for i in range(5 + number * 37 % 120)]}


def load(path, count):
    """A few bodies, made beforehand: the client's own work is small. The connections take turns, one
    request after the other: threads that run at once would measure Python's lock."""
    made = [document(number) for number in range(40)]
    bodies = [request("/", d) for d in made]
    expected = [sum(1 for r in d["records"] if r["id"] % 3) for d in made]
    sockets = [socket.socket(socket.AF_UNIX) for _ in range(CONNECTIONS)]
    for s in sockets:
        s.connect(path)
    streams = [s.makefile("rb") for s in sockets]
    for number in range(count):
        at, body = number % CONNECTIONS, number % len(bodies)
        sockets[at].sendall(bodies[body])
        text = answer(streams[at])
        if number % 100 < CONNECTIONS and len(json.loads(text)["records"]) != expected[body]:
            raise SystemExit(f"wrong answer to document {body}")
    sockets[0].sendall(request("/stop", {}))
    if json.loads(answer(streams[0]))["answered"] != count:
        raise SystemExit("requests were lost")


if sys.argv[1] == "serve":
    with open(sys.argv[2] + ".pid", "w") as file:
        file.write(str(os.getpid()))
    with Server(sys.argv[2], Handler) as server:
        server.serve_forever()
else:
    load(sys.argv[2], int(sys.argv[3]))
