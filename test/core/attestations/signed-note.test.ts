import t from 'tap'
import { buildDidDocument, toMultibaseKey } from '../../../core/attestations/did-document.ts'
import { parseTreeHead, formatTreeHead } from '../../../core/attestations/fee-attestations.ts'
import {
  readVerifiedNoteText,
  parseVerifierKey,
  signNote,
  toPublicKey,
  toVerifierKeyText,
} from '../../../core/attestations/signed-note.ts'

/** Notes that others have signed, and our own. */

const seed = Buffer.from('9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60', 'hex')
const own = { name: 'gas.test/attestations', seed, publicKey: toPublicKey(seed) }

t.test('a note of another implementation is opened', async (t) => {
  const key = parseVerifierKey('PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW')
  const text =
    "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
  const note = `${text}\n— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n`
  t.ok(key !== null)
  if (key === null) return
  t.equal(readVerifiedNoteText(note, key), text)
  t.equal(readVerifiedNoteText(note.replace('answer', 'Answer'), key), null)
  t.equal(toVerifierKeyText(key).split('+')[1], 'c74f20a3')
})

t.test('a note carries the signatures of two keys', async (t) => {
  t.equal(
    own.publicKey.toString('hex'),
    'd75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a',
    'RFC 8032, 7.1, test 1',
  )
  const other = { ...own, seed: Buffer.alloc(32, 1), publicKey: toPublicKey(Buffer.alloc(32, 1)) }
  const head = {
    origin: own.name,
    size: 7,
    root: Buffer.alloc(32, 5),
    at: '2026-11-23T18:00:00.000Z',
  }
  const note = signNote(formatTreeHead(head), [other, own])
  for (const key of [own, other]) {
    const text = readVerifiedNoteText(note, key)
    t.strictSame(parseTreeHead(text ?? ''), head)
    t.strictSame(parseVerifierKey(toVerifierKeyText(key))?.publicKey, key.publicKey)
  }
  t.equal(readVerifiedNoteText(note, { ...own, name: 'another' }), null)
  t.equal(readVerifiedNoteText(note.replace('\n7\n', '\n8\n'), own), null)
  t.equal(parseVerifierKey(toVerifierKeyText(own).replace(/.$/, 'A')), null)
  t.equal(parseTreeHead('x\n07\nAA==\n\n'), null)
})

t.test('a DID document names the keys', async (t) => {
  // The key of did:key:z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw (did:key, test vectors).
  const publicKey = own.publicKey
  t.equal(toMultibaseKey(publicKey), 'z6MktwupdmLXVVqTzCw4i46r4uGyosGXRnR3XjN4Zq7oMMsw')
  t.match(
    buildDidDocument('http://gas.test:8402', [
      { number: 2, publicKey, retired: false },
      { number: 1, publicKey, retired: true },
    ]),
    {
      id: 'did:web:gas.test%3A8402',
      verificationMethod: [
        {
          id: 'did:web:gas.test%3A8402#key-2',
          type: 'Multikey',
          controller: 'did:web:gas.test%3A8402',
        },
        { id: 'did:web:gas.test%3A8402#key-1' },
      ],
      assertionMethod: ['did:web:gas.test%3A8402#key-2'],
    },
  )
})
