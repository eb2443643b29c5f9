// PZP peers made of the published packages, told what to do by lines of JSON.
//
//   node peer.cjs < commands > answers
//
// A line is {peer, do, …}, with the name of a peer. Its first one is {peer, do: "open", folder, keypair, spans: {set,
// dict}}. Each line is answered by one line, {value} or {error}, in order. The packages are those of the working
// directory.
'use strict'
const { createRequire } = require('node:module')
const net = require('node:net')
const { join } = require('node:path')
const { createInterface } = require('node:readline')
const { setTimeout: pause } = require('node:timers/promises')
const { promisify } = require('node:util')

const packages = createRequire(join(process.cwd(), 'package.json'))

const HOST = '127.0.0.1'
const LISTEN_SECONDS = 30

// Left to themselves, the packages draw a port by chance, among those that connections of other processes have.
async function freePort() {
  const server = net.createServer()
  await new Promise((listening, failed) => server.once('error', failed).listen(0, HOST, listening))
  const { port } = server.address()
  await promisify(server.close.bind(server))()
  return port
}

// The packages give an address before anybody listens there.
async function listens(port) {
  for (const end = Date.now() + LISTEN_SECONDS * 1e3; ; await pause(10)) {
    const socket = net.connect(port, HOST)
    try {
      return await new Promise((connected, failed) => socket.once('error', failed).once('connect', connected))
    } catch (error) {
      if (Date.now() > end) throw error
    } finally {
      socket.destroy()
    }
  }
}

function start(folder, port, { keypair, spans }) {
  return packages('secret-stack/bare')()
    .use(packages('secret-stack/plugins/net'))
    .use(packages('secret-handshake-ext/secret-stack'))
    .use(packages('pzp-db'))
    .use(packages('pzp-dict'))
    .use(packages('pzp-set'))
    .use(packages('pzp-goals'))
    .use(packages('pzp-sync'))
    .use(packages('pzp-gc'))
    .call(null, {
      shse: { caps: packages('pzp-caps') },
      set: spans?.set ? { ghostSpan: spans.set } : {},
      dict: spans?.dict ? { ghostSpan: spans.dict } : {},
      global: {
        path: folder,
        keypair,
        timers: { inactivity: 600e3 },
        connections: {
          incoming: { net: [{ scope: 'device', transform: 'shse', port, host: HOST }] },
          outgoing: { net: [{ transform: 'shse' }] },
        },
      },
    })
}

async function records(peer) {
  const found = []
  for await (const { id, msg } of peer.db.records()) found.push([id, msg.data === null ? 'dataless' : 'dataful'])
  return found
}

async function messages(peer) {
  const found = []
  for await (const { msg } of peer.db.records()) found.push(msg)
  return found
}

const commands = {
  address: async (peer) => peer.getAddress('device'),
  // [message, tangle id] pairs, in the order in which they can be added.
  add: async (peer, { pairs }) => {
    for (const [message, tangle] of pairs) await promisify(peer.db.add)(message, tangle)
    return pairs.length
  },
  close: async (peer) => (await promisify(peer.close)(true)) ?? null,
  goal: async (peer, { tangle, goal }) => peer.goals.set(tangle, goal) ?? null,
  start: async (peer) => peer.sync.start() ?? null,
  connect: async (peer, { address }) => {
    peer.link = await promisify(peer.connect)(address)
    peer.link.once('closed', () => { peer.link = null })
    return peer.link.shse.pubkey
  },
  // A call that is no stream, over the link that was dialled: what it answers, or what went wrong there.
  ask: async (peer, { name }) => promisify(name.split('.').reduce((api, word) => api[word], peer.link))(),
  // Without waiting for the streams that are open: those of a sync never end by themselves.
  hang_up: async (peer) => peer.link && ((await promisify(peer.link.close)(true)) ?? null),
  linked: async (peer) => Object.values(peer.peers).reduce((count, links) => count + links.length, 0),
  records,
  messages,
  ghosts: async (peer, { tangle }) => peer.db.ghosts.get(tangle),
  account: async (peer, { subdomain, nonce }) => promisify(peer.db.account.create)({ subdomain, _nonce: nonce }),
  publish: async (peer, { account, domain, data, tangles }) =>
    (await promisify(peer.db.feed.publish)({ account, domain, data, tangles })).id,
  feed: async (peer, { account, domain }) => peer.db.feed.getID(account, domain),
  set_load: async (peer, { account }) => (await promisify(peer.set.load)(account)) ?? null,
  set_add: async (peer, { subdomain, value }) => promisify(peer.set.add)(subdomain, value),
  set_del: async (peer, { subdomain, value }) => promisify(peer.set.del)(subdomain, value),
  set_values: async (peer, { subdomain, account }) => promisify(peer.set.values)(subdomain, account),
  set_feed: async (peer, { subdomain }) => peer.set.getFeedID(subdomain),
  dict_load: async (peer, { account }) => (await promisify(peer.dict.load)(account)) ?? null,
  dict_update: async (peer, { subdomain, update }) => promisify(peer.dict.update)(subdomain, update),
  dict_read: async (peer, { subdomain, account }) => promisify(peer.dict.read)(account, subdomain),
  dict_feed: async (peer, { subdomain }) => peer.dict.getFeedID(subdomain),
  collect: async (peer, { bytes }) => (await promisify(peer.gc.forceImmediately)(bytes)) ?? null,
}

async function main() {
  // Standard output is for answers. What the packages print is for people.
  console.log = console.error
  // The database does not bear being closed while it writes. The other peers of this process are not to suffer for it.
  process.on('uncaughtException', (error) => console.error(error))
  const peers = new Map()
  for await (const line of createInterface({ input: process.stdin })) {
    let answer
    try {
      const command = JSON.parse(line)
      if (command.do === 'open') {
        const port = await freePort()
        const peer = start(command.folder, port, command)
        await peer.db.loaded()
        await listens(port)
        peers.set(command.peer, peer)
        answer = { value: peer.shse.pubkey }
      } else {
        answer = { value: await commands[command.do](peers.get(command.peer), command) }
      }
    } catch (error) {
      answer = { error: String(error?.message ?? error), cause: String(error?.cause?.message ?? '') }
    }
    process.stdout.write(JSON.stringify(answer) + '\n')
  }
  process.exit(0)
}

main()
