import { randomBytes } from 'node:crypto'
import t from 'tap'
import {
  hmacSha256,
  envelopeKeyId,
  parseMasterKey,
  decryptEnvelope,
  timingSafeTextEqual,
  encryptEnvelope,
  deriveEncryptionKey,
  deriveSubkey,
} from '../../core/key-derivation-and-encryption.ts'

const master = parseMasterKey(Buffer.alloc(32, 7).toString('base64'))
const other = parseMasterKey(Buffer.alloc(32, 8).toString('base64'))
const keyring = deriveEncryptionKey(master, 'keyring')
const owner = ['agent-1', 'bp_1', 'OPENAI']

t.test('a master key is exactly 32 bytes of base64', async (t) => {
  t.equal(parseMasterKey(randomBytes(32).toString('base64')).length, 32)
  for (const bad of [
    '',
    'short',
    randomBytes(31).toString('base64'),
    randomBytes(33).toString('base64'),
    `${'!'.repeat(43)}=`,
  ]) {
    t.throws(() => parseMasterKey(bad), /32 bytes/, JSON.stringify(bad))
  }
})

t.test('every purpose has its own key, the same after each start', async (t) => {
  t.notSame(deriveSubkey(master, 'pepper'), deriveSubkey(master, 'keyring'))
  t.notSame(deriveSubkey(master, 'pepper'), deriveSubkey(other, 'pepper'))
  t.same(
    deriveSubkey(master, 'pepper'),
    deriveSubkey(parseMasterKey(Buffer.alloc(32, 7).toString('base64')), 'pepper'),
  )
  t.equal(deriveSubkey(master, 'pepper').length, 32)
})

t.test('a sealed value opens for its owner and is unreadable otherwise', async (t) => {
  const sealed = encryptEnvelope(keyring, 'sk-live-123', owner)
  t.equal(decryptEnvelope(keyring, sealed, owner).toString(), 'sk-live-123')
  t.notOk(sealed.includes('sk-live-123'))
  t.notSame(sealed, encryptEnvelope(keyring, 'sk-live-123', owner), 'a new IV each time')
  t.equal(decryptEnvelope(keyring, encryptEnvelope(keyring, '', owner), owner).length, 0)
})

t.test('a row moved to another owner, name or purpose does not open', async (t) => {
  const sealed = encryptEnvelope(keyring, 'secret', owner)
  t.throws(() => decryptEnvelope(keyring, sealed, ['agent-2', 'bp_1', 'OPENAI']))
  t.throws(() => decryptEnvelope(keyring, sealed, ['agent-1', 'bp_1', 'OTHER']))
  t.throws(() => decryptEnvelope(keyring, sealed, ['agent-1', 'bp_1OPENAI']))
  t.throws(() => decryptEnvelope(keyring, sealed, ['agent-1', 'bp_1', 'OPENAI', '']))
  t.throws(() => decryptEnvelope({ ...keyring, purpose: 'wallet' }, sealed, owner))
})

t.test('a flipped byte anywhere, a cut tag or a cut text does not open', async (t) => {
  const sealed = encryptEnvelope(keyring, 'secret', owner)
  for (let at = 0; at < sealed.length; at++) {
    const broken = Buffer.from(sealed)
    broken[at] = broken[at]! ^ 1
    t.throws(() => decryptEnvelope(keyring, broken, owner), `byte ${at}`)
  }
  t.throws(() => decryptEnvelope(keyring, sealed.subarray(0, sealed.length - 1), owner))
  t.throws(() => decryptEnvelope(keyring, sealed.subarray(0, 10), owner), /envelope/)
})

t.test(
  'during a rotation of the master key both keys open, and an envelope names its key',
  async (t) => {
    const next = deriveEncryptionKey(other, 'keyring')
    const sealed = encryptEnvelope(keyring, 'secret', owner)
    t.equal(decryptEnvelope([next, keyring], sealed, owner).toString(), 'secret')
    t.equal(envelopeKeyId(sealed), keyring.id)
    t.throws(() => decryptEnvelope(next, sealed, owner), /no key/)
  },
)

t.test('an envelope read back as a plain Uint8Array view opens too', async (t) => {
  const sealed = encryptEnvelope(keyring, 'secret', owner)
  const wide = new Uint8Array(sealed.length + 8)
  wide.set(sealed, 3)
  t.equal(decryptEnvelope(keyring, wide.subarray(3, 3 + sealed.length), owner).toString(), 'secret')
})

t.test('HMACs depend on key and text; secrets of any length can be compared', async (t) => {
  t.notSame(hmacSha256(Buffer.alloc(32), 'a'), hmacSha256(Buffer.alloc(32), 'b'))
  t.notSame(hmacSha256(Buffer.alloc(32), 'a'), hmacSha256(Buffer.alloc(32, 1), 'a'))
  t.ok(timingSafeTextEqual('token', 'token'))
  t.notOk(timingSafeTextEqual('token', 'token '))
  t.notOk(timingSafeTextEqual('', 'x'))
})
