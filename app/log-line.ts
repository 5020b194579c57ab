import { hostname } from 'node:os'
import { createDatabaseAdjustedClock } from '../core/clock.ts'

/** The lines of a station before its server has a log, and those of its start and stop. */

/** The numbers of the server's log. */
const LEVELS = { info: 30, warn: 40, fatal: 60 } as const

export type LogLevel = keyof typeof LEVELS

/** Writes a line: JSON like the server's log, or its text alone for a person at a terminal. */
export function writeLogLine(level: LogLevel, msg: string, fields: object = {}): void {
  const output = level === 'fatal' ? process.stderr : process.stdout
  if (output.isTTY) return void output.write(`${msg}\n`)
  const time = createDatabaseAdjustedClock().now()
  const head = { level: LEVELS[level], time, pid: process.pid, hostname: hostname() }
  output.write(`${JSON.stringify({ ...head, ...fields, msg })}\n`)
}
