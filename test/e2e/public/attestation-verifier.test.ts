import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { writeFileSync } from 'node:fs'
import { promisify } from 'node:util'
import t, { type Test } from 'tap'
import { formatTreeHead } from '../../../core/attestations/fee-attestations.ts'
import {
  appendLeavesToTreeRightEdge,
  rootOfTreeRightEdge,
  EMPTY_TREE_RIGHT_EDGE,
  hashLeaf,
} from '../../../core/attestations/merkle-tree.ts'
import { signNote, toPublicKey, toVerifierKeyText } from '../../../core/attestations/signed-note.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { startFixtureServer } from '../../support/upstreams/fixture-server.ts'

/** The verifier that strangers run, against a station that holds the key and lies. */

const NAME = 'gas.test/attestations'
const seed = randomBytes(32)
const signer = { name: NAME, seed, publicKey: toPublicKey(seed) }
const KEPT_AT = '2026-11-24T12:00:00.000Z'
const leafAt = (minute: string, micros: number | string = 900) =>
  `gas-fee-v1 ${minute} fee ${micros} ${randomBytes(32).toString('hex')}`
const OLD = Array.from({ length: 5 }, (_, at) => leafAt(`2026-11-24T11:0${at}Z`))
const NEW = [leafAt('2026-11-25T09:00Z'), leafAt('2026-11-25T09:01Z')]

/** The answer about a tree of these leaves; `text` replaces what is signed. */
function toHead(leaves: readonly string[], text?: string) {
  const edge = appendLeavesToTreeRightEdge(EMPTY_TREE_RIGHT_EDGE, leaves.map(hashLeaf))
  const head = { origin: NAME, size: edge.size, root: rootOfTreeRightEdge(edge), at: KEPT_AT }
  return {
    note: signNote(text ?? formatTreeHead(head), [signer]),
    keys: [toVerifierKeyText(signer)],
  }
}

/** What the verifier prints about a station that answers with this head and these leaves, two a page. */
async function judge(
  t: Test,
  kept: object,
  head: object,
  leaves: readonly string[],
): Promise<string> {
  const station = await startFixtureServer(t, (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://station')
    const end = Number(searchParams.get('cursor') ?? leaves.length)
    const page = leaves.slice(Math.max(0, end - 2), end).map((leaf) => ({ leaf }))
    const next_cursor = end > 2 ? String(end - 2) : null
    response.setHeader('content-type', 'application/json')
    response.end(
      JSON.stringify(
        pathname.endsWith('/head') ? head : { attestations: page.toReversed(), next_cursor },
      ),
    )
  })
  const file = join(t.testdir(), 'kept.json')
  writeFileSync(file, JSON.stringify(kept))
  const program = join(REPOSITORY_ROOT, 'examples/verify-attestations.mjs')
  return promisify(execFile)(process.execPath, [program, station.base, file]).then(
    ({ stdout }) => stdout,
    (error: { stdout: string; stderr: string }) => error.stdout + error.stderr,
  )
}

t.test('an honest station passes', async (t) => {
  const leaves = [...OLD, ...NEW]
  t.match(
    await judge(t, toHead(OLD), toHead(leaves), leaves),
    /^ok 7 fees, 0\.0063 USDC; the first 5 are those of 2026-11-24T12:00:00\.000Z/,
  )
})

for (const [name, leaf] of Object.entries({
  'a minute that is none': leafAt('0000-99-99T99:99Z'),
  'an earlier minute': leafAt('2026-11-23T11:00Z'),
  'an amount that is none': leafAt('2026-11-25T09:02Z', '1e3'),
  'another form': leafAt('2026-11-25T09:02Z').replace('-v1', '-v2'),
}))
  t.test(`a fee with ${name} is found`, async (t) => {
    const leaves = [...OLD, ...NEW, leaf]
    t.match(await judge(t, toHead(OLD), toHead(leaves), leaves), /^BROKEN/)
  })

t.test('a head that is none is found, although it is signed', async (t) => {
  const root = Buffer.alloc(32).toString('base64')
  for (const size of ['all', '5e0', '-5', '']) {
    const head = toHead(OLD, `${NAME}\n${size}\n${root}\n${KEPT_AT}\n`)
    t.match(await judge(t, toHead(OLD), head, OLD), /^BROKEN/, size)
  }
  const receipt = toHead(OLD, `${NAME} receipt-v1\ncall 5\ntool x\n`)
  t.match(await judge(t, toHead(OLD), receipt, OLD), /^BROKEN/, 'a receipt is no head')
})

t.test('a key that the kept head does not name signs nothing', async (t) => {
  const other = randomBytes(32)
  const stranger = { name: NAME, seed: other, publicKey: toPublicKey(other) }
  const head = { ...toHead(OLD), note: signNote('x\n5\ny\nz\n', [stranger]) }
  t.match(await judge(t, toHead(OLD), head, OLD), /^BROKEN a head is not signed/)
})

t.test('a head of a tree without fees is refused in words', async (t) => {
  const empty = { tree_size: 0, note: null, keys: toHead(OLD).keys }
  t.match(await judge(t, empty, toHead(OLD), OLD), /^BROKEN a head without fees/)
})
