/**
 * Checks the fees that a station publishes against a head that was kept before. Needs Node 20 and nothing else.
 *   curl -s https://station/api/attestations/head > kept.json            (today)
 *   node verify-attestations.mjs https://station kept.json               (any later day)
 * It trusts the kept file alone: its keys, its size and its root. A fee among those that was changed, removed or
 * inserted since changes the root of the tree (RFC 9162) over the published rows.
 */
import { createHash, createPublicKey, verify } from 'node:crypto'
import { readFileSync } from 'node:fs'

const [url, file] = process.argv.slice(2)
const LATEST_COMMIT_MS = 13 * 60_000
const sha256 = (...parts) => createHash('sha256').update(Buffer.concat(parts)).digest()
const fail = (says) => {
  console.log(`BROKEN ${says}`)
  process.exit(1)
}

async function get(path) {
  const response = await fetch(`${url}${path}`)
  if (response.status === 429) {
    await new Promise((done) => setTimeout(done, 1_000))
    return get(path)
  }
  const body = await response.json()
  return response.ok
    ? body
    : fail(`${path} answers ${response.status}: ${body.detail ?? body.title}`)
}

/** A head whose note one of the keys has signed: origin, size, root and time are the lines of its text. */
function open({ note }, keys) {
  const end = note.lastIndexOf('\n\n')
  const [text, signatures] = [
    note.slice(0, end + 1),
    note
      .slice(end + 2)
      .trim()
      .split('\n'),
  ]
  const isSigned = keys.some((line) => {
    const key = Buffer.from(line.slice(line.indexOf('+', line.indexOf('+') + 1) + 1), 'base64')
    const der = Buffer.concat([Buffer.from('302a300506032b6570032100', 'hex'), key.subarray(1)])
    const publicKey = createPublicKey({ key: der, format: 'der', type: 'spki' })
    return signatures.some((signature) => {
      const bytes = Buffer.from(signature.split(' ')[2], 'base64').subarray(4)
      return verify(null, Buffer.from(text), publicKey, bytes)
    })
  })
  if (!isSigned) fail('a head is not signed with a key of the kept one')
  const [, size, root, at] = text.split('\n')
  return { size: Number(size), root, at: Date.parse(at) }
}

/** The root over leaves: the hash of a node covers a power of two of them, the largest below their number. */
function rootOf(hashes) {
  if (hashes.length <= 1) return hashes[0] ?? sha256()
  const left = 2 ** Math.ceil(Math.log2(hashes.length) - 1)
  return sha256(Buffer.of(1), rootOf(hashes.slice(0, left)), rootOf(hashes.slice(left)))
}

const kept = JSON.parse(readFileSync(file, 'utf8'))
const [before, now] = [open(kept, kept.keys), open(await get('/api/attestations/head'), kept.keys)]
if (now.size < before.size) fail(`${before.size} fees were published, ${now.size} are left`)
const rows = []
for (let cursor = ''; cursor !== null;) {
  const page = await get(`/api/attestations?limit=200${cursor && `&cursor=${cursor}`}`)
  rows.unshift(...page.attestations.toReversed())
  cursor = page.next_cursor
}
const hashes = rows.map(({ leaf }) => sha256(Buffer.of(0), Buffer.from(leaf)))
for (const { size, root } of [before, now])
  if (rootOf(hashes.slice(0, size)).toString('base64') !== root)
    fail(`the published fees are not the ${size} that were signed`)
const late = rows
  .slice(before.size)
  .find(({ leaf }) => Date.parse(leaf.split(' ')[1]) < before.at - LATEST_COMMIT_MS)
if (late !== undefined) fail(`fee ${late.index} was added later with an earlier time`)
const sum = rows
  .slice(0, now.size)
  .reduce((total, { leaf }) => total + Number(leaf.split(' ')[3]), 0)
console.log(
  `ok ${now.size} fees, ${sum / 1e6} USDC; the first ${before.size} are those of ${new Date(before.at).toISOString()}`,
)
