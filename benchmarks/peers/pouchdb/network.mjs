// PouchDB between two processes, on LevelDB at both ends: node network.mjs ROLE FOLDER …
//
//   fill FOLDER BUNDLE SIZE         make a database whose documents are the bundle's records, SIZE bytes each
//   serve FOLDER                    serve it over HTTP until stdin ends; prints {"port"}
//   fetch FOLDER PORT BUNDLE SIZE   replicate everything into a new database; prints {"documents", "seconds"}
//
// A document has the record's number as its id and the record's bytes as base64 in one field. The server is
// express-pouchdb with only the parts that replication needs. A replication takes 1,000 documents at a time instead of
// its default of 100, which took longer when both were tried.
// Only loopback is used. The clock of `fetch` runs from the moment before the replication is started until it says that
// it is complete; opening and closing the new database are outside it, and so is looking at some of the documents.
// node_modules is looked up from the current folder.
import { createRequire } from 'node:module'
import fs from 'node:fs'
import path from 'node:path'

const require = createRequire(path.join(process.cwd(), 'package.json'))
const PouchDB = require('pouchdb')

const BATCH = 1000
const HOST = '127.0.0.1'
const NAME = 'records'
const [role, folder, ...rest] = process.argv.slice(2)

function recordsOf (bundle, sizeText) {
  const bytes = fs.readFileSync(bundle)
  const size = Number(sizeText)
  return Array.from({ length: bytes.length / size }, (_, at) => bytes.subarray(at * size, (at + 1) * size))
}

const idOf = (number) => String(number).padStart(8, '0')

const roles = {
  async fill (bundle, size) {
    const records = recordsOf(bundle, size)
    const database = new PouchDB(path.join(folder, NAME))
    for (let at = 0; at < records.length; at += BATCH) {
      const documents = records.slice(at, at + BATCH)
        .map((record, index) => ({ _id: idOf(at + index), record: record.toString('base64') }))
      const results = await database.bulkDocs(documents)
      if (results.some((result) => !result.ok)) throw new Error('a document was refused')
    }
    await database.close()
    return { documents: records.length }
  },

  async serve () {
    const express = require('express')
    const Served = PouchDB.defaults({ prefix: folder + path.sep })
    const app = express()
    app.use(require('express-pouchdb')(Served, { mode: 'minimumForPouchDB', inMemoryConfig: true }))
    const server = app.listen(0, HOST, () => console.log(JSON.stringify({ port: server.address().port })))
    for await (const ignored of process.stdin);
    process.exit(0)
  },

  async fetch (port, bundle, size) {
    const records = recordsOf(bundle, size)
    const database = new PouchDB(path.join(folder, NAME))
    await database.info()
    const start = performance.now()
    const report = await PouchDB.replicate(`http://${HOST}:${port}/${NAME}`, database, { batch_size: BATCH })
    const seconds = (performance.now() - start) / 1000
    if (!report.ok || report.docs_written !== records.length) throw new Error(JSON.stringify(report).slice(0, 1000))
    for (let index = 0; index < records.length; index += BATCH - 1) {
      const document = await database.get(idOf(index))
      if (!Buffer.from(document.record, 'base64').equals(records[index])) throw new Error(`record ${index} differs`)
    }
    const { doc_count: count } = await database.info()
    if (count !== records.length) throw new Error(`${count} documents of ${records.length}`)
    await database.close()
    return { documents: records.length, seconds }
  }
}

const answer = await roles[role](...rest)
console.log(JSON.stringify(answer))
process.exit(0)
