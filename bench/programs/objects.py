# SPDX-License-Identifier: MIT
"""Objects as programs in Python have them: records, text, trees, big numbers, buffers."""
import json
import random
import re


class Node:
    def __init__(self, key):
        self.key, self.left, self.right = key, None, None


def insert(node, key):
    while True:
        side = "left" if key < node.key else "right"
        below = getattr(node, side)
        if below is None:
            setattr(node, side, Node(key))
            return
        node = below


random.seed(12345)
records = [{"id": i, "name": f"record {i}", "tags": [f"tag{j}" for j in range(i % 7)],
            "value": i * 1.5} for i in range(15000)]
for _ in range(3):
    text = json.dumps(records)
    records = json.loads(text)
words = {}
for word in re.findall(r"\w+", text):
    words[word] = words.get(word, 0) + 1
root = Node(0.5)
for _ in range(20000):
    insert(root, random.random())
lines = [("x" * random.randrange(600, 3000)) for _ in range(4000)]
for _ in range(40000):
    lines[random.randrange(len(lines))] = "y" * random.randrange(600, 3000)
product = 1
for i in range(1, 1500):
    product *= i
buffer = bytearray()
for i in range(200000):
    buffer += b"some bytes"
assert len(words) > 20000 and len(buffer) == 2000000 and product % 1499 == 0
