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
