import { describeHostHardware } from '../chaos/quantiles-host-hardware-and-text-tables.ts'
import { markdownTable } from '../scripts/docs/write-generated-docs.ts'
import type { BenchmarkRow } from './benchmark-result-row.ts'

/** Renders the measurements as a Markdown page. */
export function renderBenchmarkResults(rows: readonly BenchmarkRow[], plane: string): string {
  const cells = rows.map((row) => [
    row.what,
    row.measured,
    row.baseline,
    row.result,
    row.target,
    row.met ? 'yes' : '**no**',
    row.n,
    row.load,
  ])
  return [
    '# Measurements',
    '',
    'Written by `npm run bench`. Each row and its baseline are one run on one machine, by turns, in',
    'medians; the load generator is a process of its own on the same machine. Absolute figures belong',
    'to that machine, ratios travel. PostgreSQL waits for the disk (`fsync` and `synchronous_commit`',
    'on) unless the row says otherwise. `load` is the load average of the last minute when the row was',
    'done, the measurement itself included.',
    '',
    `Machine: ${describeHostHardware()}. ${plane.replace(/^plane: /, 'Plane: ').replace(/\(socket.*?\)/, '(socket)')}.`,
    '',
    'The naive transaction is a Fastify service with the same route that does BEGIN, SELECT FOR UPDATE,',
    'UPDATE, INSERT, COMMIT on the same server with as many connections (`bench/baseline-server.ts`). It writes a',
    'balance and a ledger row; the station writes the call, its ledger row, the journal and the',
    'snapshot. On one agent the row lock makes the naive service wait for the disk once a call, while',
    'the station takes all waiting calls into one commit. Spread over many agents Postgres groups the',
    'commits of both.',
    '',
    'The reference of the payments is a Fastify service on @x402/core and @x402/evm, resource server and',
    'facilitator in one process (`bench/baseline-x402-server.ts`), on the same local chain. Both sides verify the same',
    'kind of authorization of the same 256 wallets with the chain, answer a body of the same length and',
    'settle after the answer; no payment is used twice, and a row counts only if exactly what was answered',
    'has arrived at the treasury. The reference makes its answer out of nothing and keeps no record; the',
    'station asks its database for the answer, claims the payment before the tool runs, and writes the',
    'call, its transfers and each step of the settlement.',
    '',
    markdownTable(['what', 'measured', 'baseline', 'result', 'target', 'met', 'N', 'load'], cells),
    '',
  ].join('\n')
}
