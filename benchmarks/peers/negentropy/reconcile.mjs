// Two sets of ids that are nearly the same, reconciled by the negentropy of nostr-tools within one process.
//
//   node reconcile.mjs RECORDS DIFFERENCES scattered|recent
//
// DIFFERENCES ids are only in one of the sets, half of them in each. Frames are not limited. Prints {bytes, messages,
// found, seconds: [initiator, responder]}: bytes as they would travel in binary, processor time of each side without
// the building of its storage.
import { createHash } from 'node:crypto'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

// The package does not export it by name.
const module = join(process.cwd(), 'node_modules/nostr-tools/lib/esm/nip77.js')
const { Negentropy, NegentropyStorageVector } = await import(pathToFileURL(module))

const count = Number(process.argv[2])
const pairs = Number(process.argv[3]) / 2
const recent = process.argv[4] === 'recent'

const id = (what, number) => createHash('sha256').update(`${what} ${number}`).digest('hex')

function places() {
  const chosen = new Set()
  for (let turn = 0; chosen.size < pairs; turn++) {
    chosen.add(recent ? count - 1 - turn : Number(BigInt(`0x${id('place', turn).slice(0, 12)}`) % BigInt(count)))
  }
  return chosen
}

const apart = places()
const stores = [new NegentropyStorageVector(), new NegentropyStorageVector()]
for (let number = 0; number < count; number++) {
  for (const [side, store] of stores.entries()) {
    store.insert(1700000000 + number, id(apart.has(number) ? side : 'common', number))
  }
}
for (const store of stores) store.seal()

const sides = stores.map((store) => new Negentropy(store, Number.MAX_SAFE_INTEGER))
const seconds = [0, 0]
const found = new Set()
let bytes = 0
let messages = 0

function timed(side, work) {
  const before = process.cpuUsage()
  const answer = work()
  const spent = process.cpuUsage(before)
  seconds[side] += (spent.user + spent.system) / 1e6
  return answer
}

let turn = 0
let message = timed(0, () => sides[0].initiate())
while (message !== null) {
  bytes += message.length / 2
  messages += 1
  turn = 1 - turn
  const heard = message
  message = timed(turn, () => sides[turn].reconcile(heard, (one) => found.add(one), (one) => found.add(one)))
}
console.log(JSON.stringify({ bytes, messages, found: found.size, seconds }))
