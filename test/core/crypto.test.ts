import { randomBytes } from 'node:crypto'
import t from 'tap'
import {
  hmac,
  keyIdOf,
  masterKey,
  open,
  sameSecret,
  seal,
  sealingKey,
  subkey,
} from '../../core/crypto.ts'

const master = masterKey(Buffer.alloc(32, 7).toString('base64'))
const other = masterKey(Buffer.alloc(32, 8).toString('base64'))
const keyring = sealingKey(master, 'keyring')
const owner = ['agent-1', 'bp_1', 'OPENAI']

t.test('a master key is exactly 32 bytes of base64', async (t) => {
  t.equal(masterKey(randomBytes(32).toString('base64')).length, 32)
  for (const bad of [
    '',
    'short',
    randomBytes(31).toString('base64'),
    randomBytes(33).toString('base64'),
    `${'!'.repeat(43)}=`,
  ]) {
    t.throws(() => masterKey(bad), /32 bytes/, JSON.stringify(bad))
  }
})

t.test('every purpose has its own key, the same at every start', async (t) => {
  t.notSame(subkey(master, 'pepper'), subkey(master, 'keyring'))
  t.notSame(subkey(master, 'pepper'), subkey(other, 'pepper'))
  t.same(
    subkey(master, 'pepper'),
    subkey(masterKey(Buffer.alloc(32, 7).toString('base64')), 'pepper'),
  )
  t.equal(subkey(master, 'pepper').length, 32)
})

t.test('what is sealed opens for its owner and is not readable in between', async (t) => {
  const sealed = seal(keyring, 'sk-live-123', owner)
  t.equal(open(keyring, sealed, owner).toString(), 'sk-live-123')
  t.notOk(sealed.includes('sk-live-123'))
  t.notSame(sealed, seal(keyring, 'sk-live-123', owner), 'a new IV each time')
  t.equal(open(keyring, seal(keyring, '', owner), owner).length, 0)
})

t.test('a row moved to another owner, name or purpose does not open', async (t) => {
  const sealed = seal(keyring, 'secret', owner)
  t.throws(() => open(keyring, sealed, ['agent-2', 'bp_1', 'OPENAI']))
  t.throws(() => open(keyring, sealed, ['agent-1', 'bp_1', 'OTHER']))
  t.throws(() => open(keyring, sealed, ['agent-1', 'bp_1OPENAI']))
  t.throws(() => open(keyring, sealed, ['agent-1', 'bp_1', 'OPENAI', '']))
  t.throws(() => open({ ...keyring, purpose: 'wallet' }, sealed, owner))
})

t.test('a flipped byte anywhere, a cut tag or a cut text does not open', async (t) => {
  const sealed = seal(keyring, 'secret', owner)
  for (let at = 0; at < sealed.length; at++) {
    const broken = Buffer.from(sealed)
    broken[at] = broken[at]! ^ 1
    t.throws(() => open(keyring, broken, owner), `byte ${at}`)
  }
  t.throws(() => open(keyring, sealed.subarray(0, sealed.length - 1), owner))
  t.throws(() => open(keyring, sealed.subarray(0, 10), owner), /envelope/)
})

t.test('while the master key rotates, both keys open and the envelope names its own', async (t) => {
  const next = sealingKey(other, 'keyring')
  const sealed = seal(keyring, 'secret', owner)
  t.equal(open([next, keyring], sealed, owner).toString(), 'secret')
  t.equal(keyIdOf(sealed), keyring.id)
  t.throws(() => open(next, sealed, owner), /no key/)
})

t.test('an envelope read back as a plain Uint8Array view opens too', async (t) => {
  const sealed = seal(keyring, 'secret', owner)
  const wide = new Uint8Array(sealed.length + 8)
  wide.set(sealed, 3)
  t.equal(open(keyring, wide.subarray(3, 3 + sealed.length), owner).toString(), 'secret')
})

t.test('HMACs depend on key and text; secrets compare whatever their lengths', async (t) => {
  t.notSame(hmac(Buffer.alloc(32), 'a'), hmac(Buffer.alloc(32), 'b'))
  t.notSame(hmac(Buffer.alloc(32), 'a'), hmac(Buffer.alloc(32, 1), 'a'))
  t.ok(sameSecret('token', 'token'))
  t.notOk(sameSecret('token', 'token '))
  t.notOk(sameSecret('', 'x'))
})
