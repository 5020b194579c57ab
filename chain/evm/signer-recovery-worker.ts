import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { recoverAddress } from 'viem/utils'
import type { HexString } from '../payment.ts'

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
 * Only on Linux does it lower this thread and no other one: where the processors do not suffice,
 * new payments wait rather than the calls of everybody else.
 */
const NICE = 5
if (process.platform === 'linux') setPriority(0, NICE)

/** The thread of `createSignerRecoveryPool`: 2 ms of arithmetic a signature, off the event loop of the service. */
parentPort?.on('message', (job: SignerRecoveryJob) => void answer(job))

async function answer({ id, digest, signature }: SignerRecoveryJob): Promise<void> {
  const said: SignerRecoveryResult = { id, address: await signerOf(digest, signature) }
  parentPort?.postMessage(said)
}

async function signerOf(hash: HexString, signature: HexString): Promise<string | null> {
  try {
    return (await recoverAddress({ hash, signature })).toLowerCase()
  } catch {
    return null // r and s are in range, yet no point of the curve belongs to them
  }
}
