import { readFileSync } from 'node:fs'
import { serveWorkerRequests } from '../../core/concurrency/serve-worker-requests.ts'

/** A program for a pool's processes: answers a text, takes all memory or time, or waits until a pipe is written. */

serveWorkerRequests((request: string): unknown => {
  if (request.startsWith('/')) return readFileSync(request, 'utf8')
  const kept: unknown[] = []
  while (request === 'grow') kept.push(Array.from({ length: 10_000 }, () => ({})))
  if (request === 'parse') return JSON.parse(`[${'{},'.repeat(6_000_000)}1]`)
  while (request === 'spin') kept.length = 0
  return request
})
