// Hypercore between two processes, on disk at both ends: node network.mjs ROLE FOLDER …
//
//   fill FOLDER BUNDLE SIZE             make a core whose blocks are the bundle's records, SIZE bytes each
//   serve FOLDER                        replicate it to whoever connects, until stdin ends; prints {"port", "key"}
//   fetch FOLDER PORT KEY BUNDLE SIZE   download everything into a new core; prints {"blocks", "seconds"}
//
// Only loopback is used. The clock of `fetch` runs from the moment before the socket is opened until the last block is
// verified and stored; opening and closing the new core are outside it, and so is looking at some of the blocks.
// node_modules is looked up from the current folder.
import { createRequire } from 'node:module'
import fs from 'node:fs'
import net from 'node:net'
import path from 'node:path'

const require = createRequire(path.join(process.cwd(), 'package.json'))
const Hypercore = require('hypercore')

const BATCH = 1000
const HOST = '127.0.0.1'
const [role, folder, ...rest] = process.argv.slice(2)

function blocksOf (bundle, sizeText) {
  const bytes = fs.readFileSync(bundle)
  const size = Number(sizeText)
  return Array.from({ length: bytes.length / size }, (_, at) => bytes.subarray(at * size, (at + 1) * size))
}

async function open (key) {
  const core = new Hypercore(folder, key)
  await core.ready()
  return core
}

const roles = {
  async fill (bundle, size) {
    const blocks = blocksOf(bundle, size)
    const core = await open(undefined)
    for (let at = 0; at < blocks.length; at += BATCH) await core.append(blocks.slice(at, at + BATCH))
    await core.close()
    return { blocks: blocks.length }
  },

  async serve () {
    const core = await open(undefined)
    const server = net.createServer((socket) => {
      const stream = core.replicate(false)
      socket.on('error', () => stream.destroy())
      stream.on('error', () => socket.destroy())
      socket.pipe(stream).pipe(socket)
    })
    server.listen(0, HOST, () => {
      console.log(JSON.stringify({ port: server.address().port, key: core.key.toString('hex') }))
    })
    for await (const ignored of process.stdin);
    await core.close()
    process.exit(0)
  },

  async fetch (port, key, bundle, size) {
    const blocks = blocksOf(bundle, size)
    const core = await open(Buffer.from(key, 'hex'))
    const start = performance.now()
    const socket = net.connect(Number(port), HOST)
    const stream = core.replicate(true)
    socket.pipe(stream).pipe(socket)
    await core.download({ start: 0, end: blocks.length }).done()
    const seconds = (performance.now() - start) / 1000
    for (let index = 0; index < blocks.length; index += BATCH - 1) {
      if (!(await core.get(index, { wait: false }))?.equals(blocks[index])) throw new Error(`block ${index} differs`)
    }
    if (core.contiguousLength !== blocks.length) throw new Error(`${core.contiguousLength} blocks of ${blocks.length}`)
    stream.destroy()
    socket.destroy()
    await core.close()
    return { blocks: blocks.length, seconds }
  }
}

const answer = await roles[role](...rest)
console.log(JSON.stringify(answer))
