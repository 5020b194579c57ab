import { availableParallelism } from 'node:os'
import { Worker } from 'node:worker_threads'
import { ServiceError } from '../../core/errors.ts'
import type { HexString } from '../onchain-payment-types.ts'
import type { SignerRecoveryResult, SignerRecoveryJob } from './signer-recovery-worker.ts'
import { isCanonicalSignature } from './ecdsa-signature-format.ts'

/** A pool of threads that recover signers. */

export interface SignerRecoveryPool {
  /** The signer of a digest, in lower case; null if no token would accept the signature. */
  recover(digest: HexString, signature: HexString): Promise<string | null>
  close(): Promise<void>
}

interface PendingRecovery {
  readonly job: SignerRecoveryJob
  readonly resolve: (address: string | null) => void
  readonly reject: (error: Error) => void
  crashes: number
}

interface Thread {
  readonly worker: Worker
  readonly jobs: Map<number, PendingRecovery>
}

/** Eight seconds of work for one thread: further payments are better served by another node. */
const MAX_PENDING_RECOVERIES = 4_096
const MAX_RECOVERY_THREADS = 4
const MAX_RECOVERY_CRASHES = 2

/** The program is beside this file and, like it, built or source. */
const PROGRAM = new URL(
  import.meta.url.endsWith('.ts') ? './signer-recovery-worker.ts' : './signer-recovery-worker.js',
  import.meta.url,
).href

/**
 * Creates the pool. Threads start on first use and do not keep the process alive while idle. Jobs
 * of a dying thread move to another one once, then fail.
 */
export function createSignerRecoveryPool({
  size = Math.min(MAX_RECOVERY_THREADS, Math.max(1, availableParallelism() - 1)),
}: { size?: number } = {}): SignerRecoveryPool {
  const threads = new Set<Thread>()
  let [nextId, waiting, closed] = [0, 0, false]

  const start = (): Thread => {
    const thread: Thread = { worker: startThread(), jobs: new Map() }
    threads.add(thread)
    let cause: unknown
    thread.worker.on('message', ({ id, address }: SignerRecoveryResult) => {
      thread.jobs.get(id)?.resolve(address)
      thread.jobs.delete(id)
      if (thread.jobs.size === 0) thread.worker.unref()
    })
    thread.worker.on('error', (error) => (cause = error))
    thread.worker.on('exit', () => bury(thread, cause))
    return thread
  }

  const bury = (thread: Thread, cause: unknown) => {
    threads.delete(thread)
    for (const one of thread.jobs.values()) {
      one.crashes += 1
      if (!closed && one.crashes < MAX_RECOVERY_CRASHES) give(one)
      else one.reject(new Error('the thread that recovers signatures has ended', { cause }))
    }
  }

  const give = (one: PendingRecovery) => {
    const idle = [...threads].find(({ jobs }) => jobs.size === 0)
    const thread = idle ?? (threads.size < size ? start() : leastBusy(threads))
    thread.worker.postMessage(one.job)
    thread.jobs.set(one.job.id, one)
    thread.worker.ref()
  }

  const submit = (digest: HexString, signature: HexString) =>
    new Promise<string | null>((resolve, reject) => {
      give({ job: { id: (nextId += 1), digest, signature }, resolve, reject, crashes: 0 })
    })

  return {
    async recover(digest, signature) {
      if (!isCanonicalSignature(signature)) return null
      if (closed) throw new Error('the recovery pool is closed')
      if (waiting >= MAX_PENDING_RECOVERIES)
        throw new ServiceError('unavailable', { retry_after: 1 })
      waiting += 1
      try {
        return await submit(digest, signature)
      } finally {
        waiting -= 1
      }
    },
    async close() {
      closed = true
      await Promise.all([...threads].map(({ worker }) => worker.terminate()))
    },
  }
}

/** From source a thread must load the compiler itself: it inherits no loader (tsx, tap). */
const SOURCE_BOOTSTRAP = `
const [compiler, program] = require('node:worker_threads').workerData
import(compiler).then(({ register }) => (register(), import(program)))`

function startThread(): Worker {
  // Without what this process preloads.
  const execArgv: string[] = []
  if (!PROGRAM.endsWith('.ts')) return new Worker(new URL(PROGRAM), { execArgv })
  const workerData = [import.meta.resolve('tsx/esm/api'), PROGRAM]
  return new Worker(SOURCE_BOOTSTRAP, { execArgv, eval: true, workerData })
}

function leastBusy(threads: ReadonlySet<Thread>): Thread {
  return [...threads].reduce((least, one) => (one.jobs.size < least.jobs.size ? one : least))
}
