import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { recoverAddress } from 'viem/utils'
import type { HexString } from '../onchain-payment-types.ts'

/** The worker thread of `createSignerRecoveryPool`. */

export interface SignerRecoveryJob {
  readonly id: number
  readonly digest: HexString
  readonly signature: HexString
}

export interface SignerRecoveryResult {
  readonly id: number
  readonly address: string | null
}

/**
 * Linux lowers only this thread: if processors are short, new payments wait rather than all calls.
 */
const NICE = 5
if (process.platform === 'linux') setPriority(0, NICE)

/** Recovers signers off the service's event loop; 2 ms of arithmetic per signature. */
parentPort?.on('message', (job: SignerRecoveryJob) => void answer(job))

async function answer({ id, digest, signature }: SignerRecoveryJob): Promise<void> {
  const said: SignerRecoveryResult = { id, address: await signerOf(digest, signature) }
  parentPort?.postMessage(said)
}

async function signerOf(hash: HexString, signature: HexString): Promise<string | null> {
  try {
    return (await recoverAddress({ hash, signature })).toLowerCase()
  } catch {
    return null // r and s are in range, but match no point of the curve
  }
}
