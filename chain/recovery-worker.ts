import { setPriority } from 'node:os'
import { parentPort } from 'node:worker_threads'
import { recoverAddress } from 'viem/utils'
import type { Hex } from './payment.ts'

export interface RecoveryJob {
  readonly id: number
  readonly digest: Hex
  readonly signature: Hex
}

export interface RecoveryAnswer {
  readonly id: number
  readonly address: string | null
}

/**
 * Only on Linux does it lower this thread and no other one: where the processors do not suffice,
 * new payments wait rather than the calls of everybody else.
 */
const NICE = 5
if (process.platform === 'linux') setPriority(0, NICE)

/** The thread of `recoveryPool`: 2 ms of arithmetic a signature, off the event loop of the service. */
parentPort?.on('message', (job: RecoveryJob) => void answer(job))

async function answer({ id, digest, signature }: RecoveryJob): Promise<void> {
  const said: RecoveryAnswer = { id, address: await signerOf(digest, signature) }
  parentPort?.postMessage(said)
}

async function signerOf(hash: Hex, signature: Hex): Promise<string | null> {
  try {
    return (await recoverAddress({ hash, signature })).toLowerCase()
  } catch {
    return null // r and s are in range, yet no point of the curve belongs to them
  }
}
