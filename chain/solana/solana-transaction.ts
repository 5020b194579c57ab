import { createHash } from 'node:crypto'
import { toBase58 } from '../../core/base58.ts'

/** The fields read from a Solana transaction without a node. */
export interface SolanaTransferTransaction {
  /** Hex sha256 of the message after the signatures: signing again does not change it. */
  readonly messageHash: string
  /** Base58: the owner of the transferred tokens. */
  readonly payer: string
  /** Base58: no block includes the transaction once this one is 150 blocks old. */
  readonly blockhash: string
}

const MAX_SOLANA_TRANSACTION_BYTES = 1_232
const SIGNATURE_BYTES = 64
const KEY_BYTES = 32
const TOKEN_PROGRAMS: readonly string[] = [
  'TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA',
  'TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb',
]
const TRANSFER_CHECKED = 12
const SYSTEM_PROGRAM = '1'.repeat(32)
const ADVANCE_NONCE = 4
/**
 * Position of the owner among the accounts of TransferChecked: source, mint, destination, owner.
 */
const OWNER = 3

/**
 * Parses a partly signed legacy or v0 transaction that transfers tokens; null for any other. The
 * facilitator checks recipient and amount.
 */
export function parseSolanaTransfer(bytes: Uint8Array): SolanaTransferTransaction | null {
  if (bytes.length > MAX_SOLANA_TRANSACTION_BYTES) return null
  try {
    const { signatures, message } = partsOf(bytes)
    const read = termsOf(message, signatures)
    return read === null ? null : { messageHash: hashOf(message), ...read }
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

/** `solanaMessageHash` of any transaction; null if it cannot be parsed. */
export function solanaMessageHash(bytes: Uint8Array): string | null {
  try {
    return hashOf(partsOf(bytes).message)
  } catch (error) {
    if (error instanceof RangeError) return null
    throw error
  }
}

const hashOf = (message: Uint8Array): string => createHash('sha256').update(message).digest('hex')

function partsOf(bytes: Uint8Array): { signatures: number; message: Uint8Array } {
  const transaction = cursor(bytes)
  const signatures = transaction.length()
  transaction.take(signatures * SIGNATURE_BYTES)
  return { signatures, message: transaction.rest() }
}

/**
 * Parses the message: header, account keys, blockhash, instructions; v0 has a version byte before
 * them and lookups after. Rejects trailing bytes, which would give one transaction many hashes.
 */
function termsOf(
  bytes: Uint8Array,
  signatures: number,
): Pick<SolanaTransferTransaction, 'payer' | 'blockhash'> | null {
  const message = cursor(bytes)
  const versioned = (bytes[0] ?? 0) >= VERSIONED
  if (versioned && message.byte() !== VERSIONED) return null
  const signers = message.byte()
  message.take(2)
  const keys = Array.from({ length: message.length() }, () => toBase58(message.take(KEY_BYTES)))
  const blockhash = toBase58(message.take(KEY_BYTES))
  if (signers !== signatures || signers > keys.length) return null
  const instructions = instructionsIn(message)
  if (versioned) skipLookups(message)
  if (message.rest().length > 0) return null
  const programOf = ({ program }: Instruction): string => keys[program] ?? ''
  // with a durable nonce instead of a blockhash it could be included at any time
  const lasts = (one: Instruction) =>
    programOf(one) === SYSTEM_PROGRAM && one.data[0] === ADVANCE_NONCE
  if (instructions.some(lasts)) return null
  const transfer = instructions.find(
    (one) => TOKEN_PROGRAMS.includes(programOf(one)) && one.data[0] === TRANSFER_CHECKED,
  )
  const owner = transfer?.accounts[OWNER]
  // the payer must be a signer
  const payer = owner === undefined || owner >= signers ? undefined : keys[owner]
  return payer === undefined ? null : { payer, blockhash }
}

interface Instruction {
  readonly program: number
  readonly accounts: Uint8Array
  readonly data: Uint8Array
}

type Cursor = ReturnType<typeof cursor>

const instructionsIn = (message: Cursor): Instruction[] =>
  Array.from({ length: message.length() }, () => ({
    program: message.byte(),
    accounts: message.take(message.length()),
    data: message.take(message.length()),
  }))

function skipLookups(message: Cursor): void {
  for (let left = message.length(); left > 0; left--) {
    message.take(KEY_BYTES)
    message.take(message.length())
    message.take(message.length())
  }
}

const VERSIONED = 0x80

/** Reads bytes forward; throws RangeError at the end. */
function cursor(bytes: Uint8Array) {
  let at = 0
  const take = (count: number): Uint8Array => {
    if (at + count > bytes.length) throw new RangeError('the transaction ends too early')
    return bytes.subarray(at, (at += count))
  }
  const byte = () => take(1)[0] ?? 0
  return {
    take,
    byte,
    /** A length in one to three bytes of seven bits. */
    length(): number {
      let value = 0
      for (let shift = 0; shift < 21; shift += 7) {
        const next = byte()
        value |= (next & 0x7f) << shift
        if (next < 0x80) return value
      }
      throw new RangeError('a length has at most three bytes')
    },
    rest: () => take(bytes.length - at),
  }
}
