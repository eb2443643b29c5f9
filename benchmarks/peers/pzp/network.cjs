// A PZP peer made of the published packages, in a process of its own, for the benchmark of tangles.
//
//   node network.cjs fill FOLDER FILE              its database, from lines of [id, message]
//   node network.cjs serve FOLDER KEYPAIR FEED     prints {address}; until its input ends
//   node network.cjs fetch FOLDER KEYPAIR FEED ADDRESS
//
// Both sides have the goal `all` for the feed. The clock of the last one runs from the moment before it dials until
// everything that the session brought is in its database; its own loading is over before. The database is filled
// through the log that it keeps, because each message that is added by the front door costs a walk over all before it.
// The packages are those of the working directory.
'use strict'
const { readFileSync } = require('node:fs')
const { createRequire } = require('node:module')
const { join } = require('node:path')
const { promisify } = require('node:util')

const packages = createRequire(join(process.cwd(), 'package.json'))
// Parts that their packages do not export.
const inside = (path) => require(join(process.cwd(), 'node_modules', path))
const say = (answer) => process.stdout.write(JSON.stringify(answer) + '\n')

async function fill(folder, file) {
  const codec = { encode: (record) => Buffer.from(JSON.stringify(record)), decode: (bytes) => JSON.parse(bytes) }
  const log = inside('pzp-db/lib/log')(join(folder, 'db', 'log'), {
    blockSize: 64 * 1024,
    codec,
    validateRecord: () => true,
  })
  let messages = 0
  for (const line of readFileSync(file, 'utf8').split('\n').filter(Boolean)) {
    const [id, msg] = JSON.parse(line)
    await promisify(log.append)({ id, msg, received: 0 })
    messages += 1
  }
  await promisify(log.close)()
  say({ messages })
}

async function start(folder, keypair, feed) {
  const peer = packages('secret-stack/bare')()
    .use(packages('secret-stack/plugins/net'))
    .use(packages('secret-handshake-ext/secret-stack'))
    .use(packages('pzp-db'))
    .use(packages('pzp-dict'))
    .use(packages('pzp-set'))
    .use(packages('pzp-goals'))
    .use(packages('pzp-sync'))
    .call(null, {
      shse: { caps: packages('pzp-caps') },
      global: {
        path: folder,
        keypair: JSON.parse(keypair),
        timers: { inactivity: 3600e3 },
        connections: {
          incoming: { net: [{ scope: 'device', transform: 'shse', port: null, host: '127.0.0.1' }] },
          outgoing: { net: [{ transform: 'shse' }] },
        },
      },
    })
  await peer.db.loaded()
  peer.goals.set(feed, 'all')
  return peer
}

async function count(peer) {
  let messages = 0
  for await (const _ of peer.db.records()) messages += 1
  return messages
}

async function serve(folder, keypair, feed) {
  const peer = await start(folder, keypair, feed)
  say({ address: await peer.getAddress('device'), messages: await count(peer) })
  process.stdin.on('end', () => process.exit(0)).resume()
}

async function fetch(folder, keypair, feed, address) {
  const { prototype } = inside('pzp-sync/lib/algorithm.js')
  const { commit } = prototype
  const stored = new Promise((resolve, reject) => {
    // What came is given to the database, and nobody waits for it: here somebody does.
    prototype.commit = function (...what) {
      const storing = commit.apply(this, what)
      storing.then(resolve, reject)
      return storing
    }
  })
  const peer = await start(folder, keypair, feed)
  const before = await count(peer)
  peer.sync.start()
  const began = performance.now()
  await promisify(peer.connect)(address)
  await stored
  const seconds = (performance.now() - began) / 1000
  say({ seconds, messages: (await count(peer)) - before })
  process.exit(0)
}

// Standard output is for answers. What the packages print is for people.
console.log = console.error
const [what, ...given] = process.argv.slice(2)
const work = { fill, serve, fetch }[what]
work(...given).catch((error) => {
  console.error(error)
  process.exit(1)
})
