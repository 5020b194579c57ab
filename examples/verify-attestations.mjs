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
const LEAF = /^gas-fee-v1 (\d{4}-\d\d-\d\dT\d\d:\d\dZ) [a-z_]+ (-?[1-9]\d{0,18}) [0-9a-f]{64}$/
const LATEST_MS = 13 * 60_000
const SPKI_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')
const sha256 = (...parts) => createHash('sha256').update(Buffer.concat(parts)).digest()
const fail = (says) => {
  console.log(`BROKEN ${says}`)
  process.exit(1)
}

async function get(path) {
  const response = await fetch(`${url}${path}`)
  if (response.status === 429)
    return new Promise((go) => setTimeout(go, 1_000)).then(() => get(path))
  const body = await response.json()
  return response.ok
    ? body
    : fail(`${path} answers ${response.status}: ${body.detail ?? body.title}`)
}

/** A head whose note one of the keys has signed: origin, size, root and time are the lines of its text. */
function open({ note }, keys) {
  if (typeof note !== 'string') fail('a head without fees: keep one after the first fee')
  const text = note.slice(0, note.lastIndexOf('\n\n') + 1)
  const signatures = note.slice(text.length + 1).match(/(?<=^— \S+ )\S+$/gm) ?? []
  const isSigned = keys.some((key) => {
    const der = Buffer.concat([SPKI_PREFIX, Buffer.from(key.slice(-44), 'base64').subarray(1)])
    const publicKey = createPublicKey({ key: der, format: 'der', type: 'spki' })
    const isBy = (one) =>
      verify(null, Buffer.from(text), publicKey, Buffer.from(one, 'base64').subarray(4))
    return signatures.some(isBy)
  })
  const [, size, root, at] = text.split('\n')
  if (!isSigned || !/^[1-9]\d*$/.test(size)) fail('a head is not signed with a key of the kept one')
  return { size: Number(size), root, at }
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
  rows.unshift(...page.attestations.map(({ leaf }) => leaf).reverse())
  cursor = page.next_cursor
}
const hashes = rows.map((leaf) => sha256(Buffer.of(0), Buffer.from(leaf)))
for (const { size, root } of [before, now])
  if (rootOf(hashes.slice(0, size)).toString('base64') !== root)
    fail(`the published fees are not the ${size} that were signed`)
const fees = rows.slice(0, now.size).map((leaf) => LEAF.exec(leaf) ?? fail(`no fee: ${leaf}`))
const late = fees.findIndex(
  ([, at], index) => index >= before.size && !(Date.parse(at) >= Date.parse(before.at) - LATEST_MS),
)
if (late !== -1) fail(`fee ${late} was added later with an earlier time`)
const sum = fees.reduce((total, [, , micros]) => total + Number(micros), 0) / 1e6
console.log(`ok ${now.size} fees, ${sum} USDC; the first ${before.size} are those of ${before.at}`)
