// SPDX-License-Identifier: MIT
// Worker threads with native buffers, zlib in the thread pool, JSON; prints checksums.
const { Worker, isMainThread, parentPort, workerData } = require('worker_threads');
const crypto = require('crypto');
const zlib = require('zlib');
const { promisify } = require('util');

const gzip = promisify(zlib.gzip);
const gunzip = promisify(zlib.gunzip);
const digest = (data) => crypto.createHash('sha256').update(data).digest('hex');

// A small generator of our own, so that each run does the same.
function randomFrom(seed) {
  let state = seed >>> 0;
  return (limit) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * limit);
  };
}

async function churn(seed) {
  const random = randomFrom(seed);
  const kept = new Array(64);
  for (let i = 0; i < 1500; i++) {
    const block = Buffer.alloc(1 + random(40000), i & 255);
    kept[random(kept.length)] = block;
  }
  const all = Buffer.concat(kept.filter(Boolean));
  const packed = await Promise.all([1, 6, 9].map((level) => gzip(all, { level })));
  const back = await Promise.all(packed.map((data) => gunzip(data)));
  if (!back.every((data) => data.equals(all))) throw new Error('zlib does not give back what it got');
  const table = Array.from({ length: 3000 }, (_, i) => ({ i, text: 'x'.repeat(random(200)) }));
  return digest(all) + digest(JSON.stringify(JSON.parse(JSON.stringify(table))));
}

async function main() {
  const workers = [1, 2, 3, 4].map((seed) => new Promise((resolve, reject) => {
    const worker = new Worker(__filename, { workerData: seed });
    worker.on('message', resolve);
    worker.on('error', reject);
  }));
  console.log((await Promise.all(workers)).join('\n'));
  console.log(await churn(5));
}

if (isMainThread) main();
else churn(workerData).then((result) => parentPort.postMessage(result));
