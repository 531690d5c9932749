# SPDX-License-Identifier: MIT
# Node.js: JavaScript's objects live in V8's own heap; buffers, compression, the compiler's zones and
# the event loop in malloc.
# needs: node
# serves: node
. "$PROGRAMS/lib.sh"

prepare() {
    cat >work.js <<'END'
const zlib = require('zlib');
const crypto = require('crypto');
const records = Array.from({length: 20000}, (_, i) => ({id: i, name: 'record ' + i, tags: [i, i + 1]}));
let text = '';
for (let i = 0; i < 4; i++) { text = JSON.stringify(records); JSON.parse(text); }
const buffers = [];
for (let i = 0; i < 20000; i++) buffers[i % 500] = Buffer.alloc(5000 + i % 20000, 1);
for (let i = 0; i < 40; i++) zlib.inflateSync(zlib.deflateSync(text.slice(0, 200000)));
for (let i = 0; i < 20000; i++) crypto.createHash('sha1').update('x' + i).digest('hex');
Promise.all(Array.from({length: 60}, () => new Promise((good, bad) =>
  zlib.gzip(text.slice(0, 300000), (e, out) => e ? bad(e) : good(out.length)))))
  .then(sizes => { if (sizes.length !== 60 || buffers.length !== 500) process.exit(1); });
END
}

run() {
    under node work.js
}

"$1"
