// Measure Hypercore on disk, one way per run: node append.mjs FOLDER WAY COUNT SIZE
//
//   single     append one block at a time, each awaited: one signature per block, as a Seal has
//   batch      append a thousand blocks at a time: one signature per thousand
//   replicate  download everything from a core that exists, over a stream in this process, verified, onto the disk
//
// Prints {"blocks": …, "seconds": …}. What is outside the clock: making the blocks, opening and closing the core, and
// for `replicate` filling the core that is copied. node_modules is looked up from the current folder.
import { createRequire } from 'node:module'
import path from 'node:path'
import crypto from 'node:crypto'

const require = createRequire(path.join(process.cwd(), 'package.json'))
const Hypercore = require('hypercore')

const BATCH = 1000
const [folder, way, countText, sizeText] = process.argv.slice(2)
const count = Number(countText)
const blocks = Array.from({ length: count }, () => crypto.randomBytes(Number(sizeText)))

async function appendBatches (core) {
  for (let at = 0; at < count; at += BATCH) await core.append(blocks.slice(at, at + BATCH))
}

async function timed (work) {
  const start = performance.now()
  await work()
  return (performance.now() - start) / 1000
}

async function open (name, key) {
  const core = new Hypercore(path.join(folder, name), key)
  await core.ready()
  return core
}

const ways = {
  async single (core) {
    return timed(async () => {
      for (const block of blocks) await core.append(block)
    })
  },
  async batch (core) {
    return timed(() => appendBatches(core))
  },
  async replicate (core) {
    await appendBatches(core)
    const copy = await open('copy', core.key)
    const ours = core.replicate(true)
    const theirs = copy.replicate(false)
    ours.pipe(theirs).pipe(ours)
    const seconds = await timed(() => copy.download({ start: 0, end: count }).done())
    for (const index of [0, count >> 1, count - 1]) {
      if (!(await copy.get(index, { wait: false })).equals(blocks[index])) throw new Error(`block ${index} differs`)
    }
    ours.destroy()
    theirs.destroy()
    await copy.close()
    return seconds
  }
}

const core = await open('core', undefined)
const seconds = await ways[way](core)
if (core.length !== count) throw new Error(`${core.length} blocks instead of ${count}`)
await core.close()
console.log(JSON.stringify({ blocks: count, seconds }))
