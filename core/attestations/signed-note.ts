import { createHash, createPrivateKey, createPublicKey, sign, verify } from 'node:crypto'

/** Signed notes (c2sp.org/signed-note): a text with Ed25519 signatures below it. */

const ED25519 = 1
const KEY_ID_BYTES = 4
const PRIVATE_KEY_DER_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')
const PUBLIC_KEY_DER_PREFIX = Buffer.from('302a300506032b6570032100', 'hex')
const SIGNATURE_LINE = /^— (\S+) ([A-Za-z0-9+/]+={0,2})$/

/** The public key of a signer under its name. */
export interface NoteVerifierKey {
  readonly name: string
  /** The 32 bytes of an Ed25519 key. */
  readonly publicKey: Buffer
}

export interface NoteSignerKey extends NoteVerifierKey {
  /** The 32 bytes of the private key. */
  readonly seed: Buffer
}

/** The public key of a private one. */
export const toPublicKey = (seed: Buffer): Buffer =>
  createPublicKey(toPrivateKeyObject(seed))
    .export({ format: 'der', type: 'spki' })
    .subarray(PUBLIC_KEY_DER_PREFIX.length)

const toPrivateKeyObject = (seed: Buffer) =>
  createPrivateKey({
    key: Buffer.concat([PRIVATE_KEY_DER_PREFIX, seed]),
    format: 'der',
    type: 'pkcs8',
  })

/** The id of a key in signatures: a hint which key to try. */
const keyIdOf = ({ name, publicKey }: NoteVerifierKey): Buffer =>
  createHash('sha256')
    .update(`${name}\n`)
    .update(Buffer.of(ED25519))
    .update(publicKey)
    .digest()
    .subarray(0, KEY_ID_BYTES)

/** The text form of a public key, which verifiers of signed notes take: name, id and key. */
export const toVerifierKeyText = (key: NoteVerifierKey): string =>
  `${key.name}+${keyIdOf(key).toString('hex')}+${Buffer.concat([Buffer.of(ED25519), key.publicKey]).toString('base64')}`

/** Parses the text form of a public key; null if it is none. */
export function parseVerifierKey(text: string): NoteVerifierKey | null {
  const [, name, id, key] =
    /^([^\s+]+)\+([0-9a-f]{8})\+([A-Za-z0-9+/]{44})$/.exec(text.trim()) ?? []
  if (name === undefined || key === undefined) return null
  const bytes = Buffer.from(key, 'base64')
  const parsed = { name, publicKey: bytes.subarray(1) }
  return bytes[0] === ED25519 && keyIdOf(parsed).toString('hex') === id ? parsed : null
}

/** Signs a text, which ends with a line break, with each of the keys. */
export function signNote(text: string, keys: readonly NoteSignerKey[]): string {
  const lines = keys.map((key) => {
    const signature = sign(null, Buffer.from(text), toPrivateKeyObject(key.seed))
    return `— ${key.name} ${Buffer.concat([keyIdOf(key), signature]).toString('base64')}\n`
  })
  return `${text}\n${lines.join('')}`
}

/** The text of a note that the key has signed; null if it has not. */
export function readVerifiedNoteText(note: string, key: NoteVerifierKey): string | null {
  const end = note.lastIndexOf('\n\n')
  if (end === -1) return null
  const text = note.slice(0, end + 1)
  const publicKey = createPublicKey({
    key: Buffer.concat([PUBLIC_KEY_DER_PREFIX, key.publicKey]),
    format: 'der',
    type: 'spki',
  })
  const isSigned = note
    .slice(end + 2)
    .split('\n')
    .some((line) => {
      const [, name, encoded = ''] = SIGNATURE_LINE.exec(line) ?? []
      const bytes = Buffer.from(encoded, 'base64')
      return (
        name === key.name &&
        bytes.subarray(0, KEY_ID_BYTES).equals(keyIdOf(key)) &&
        verify(null, Buffer.from(text), publicKey, bytes.subarray(KEY_ID_BYTES))
      )
    })
  return isSigned ? text : null
}
