import { randomBytes } from 'node:crypto'
import t from 'tap'
import { privateKeyToAddress } from 'viem/accounts'
import {
  createCustodialWallet,
  decryptWalletKey,
} from '../../../chain/custody/custodial-wallets.ts'
import {
  envelopeKeyId,
  parseMasterKey,
  deriveEncryptionKey,
} from '../../../core/key-derivation-and-encryption.ts'

const AGENT = '018f0000-0000-7000-8000-000000000001'
const OTHER = '018f0000-0000-7000-8000-000000000002'
const master = () => parseMasterKey(randomBytes(32).toString('base64'))
const key = deriveEncryptionKey(master(), 'wallet')

t.test('an opened wallet has the key of its address', async (t) => {
  const wallet = createCustodialWallet(key, AGENT)
  const privateKey = decryptWalletKey(key, AGENT, wallet)
  t.match(privateKey, /^0x[0-9a-f]{64}$/)
  t.equal(privateKeyToAddress(privateKey), wallet.address)
  t.notOk(wallet.sealed.includes(Buffer.from(privateKey.slice(2), 'hex')))
  t.not(createCustodialWallet(key, AGENT).address, wallet.address, 'each has a key of its own')
})

t.test('an envelope opens only for its own agent, address and key', async (t) => {
  const wallet = createCustodialWallet(key, AGENT)
  t.throws(() => decryptWalletKey(key, OTHER, wallet))
  t.throws(() =>
    decryptWalletKey(key, AGENT, { ...wallet, address: createCustodialWallet(key, AGENT).address }),
  )
  t.throws(() => decryptWalletKey(deriveEncryptionKey(master(), 'wallet'), AGENT, wallet))
  const changed = Buffer.from(wallet.sealed)
  changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1
  t.throws(() => decryptWalletKey(key, AGENT, { ...wallet, sealed: changed }))
})

t.test('an error message never contains the key', async (t) => {
  const wallet = createCustodialWallet(key, AGENT)
  const secret = decryptWalletKey(key, AGENT, wallet).slice(2)
  try {
    decryptWalletKey(key, OTHER, wallet)
    t.fail('it opened for another agent')
  } catch (error) {
    t.notMatch(String((error as Error).stack), secret)
  }
})

t.test(
  'during a rotation of the master key both keys open envelopes, and the first one seals',
  async (t) => {
    const next = deriveEncryptionKey(master(), 'wallet')
    const [before, after] = [
      createCustodialWallet(key, AGENT),
      createCustodialWallet([next, key], AGENT),
    ]
    t.match(before, { keyId: key.id })
    t.match(after, { keyId: next.id })
    t.equal(envelopeKeyId(after.sealed), next.id)
    for (const one of [before, after])
      t.equal(privateKeyToAddress(decryptWalletKey([next, key], AGENT, one)), one.address)
    t.throws(() => decryptWalletKey(key, AGENT, after), /no key/)
    t.throws(() => decryptWalletKey(next, AGENT, before), /no key/)
  },
)
