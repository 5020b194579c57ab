import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { TAP } from 'tap'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'
import { serviceProgramArgs } from '../station/node-args-to-spawn-service-or-cli.ts'
import type { McpTestResult } from './mcp-test-client.ts'

/** Runs `gas mcp`, or what a client was configured to run, and talks to it in lines. */

export interface StdioMcpMessage {
  readonly id?: string | number
  readonly method?: string
  readonly result: McpTestResult
  readonly error?: { readonly code: number; readonly message: string }
}

/** `gas mcp` as a process: messages are lines. */
export interface StdioMcpProcess {
  /** Everything that it has written so far. */
  readonly messages: readonly StdioMcpMessage[]
  writeLine(message: object | string): void
  /** Sends a request and resolves to its answer. */
  ask(method: string, params?: object): Promise<StdioMcpMessage>
  answerTo(id: string | number): Promise<StdioMcpMessage>
  /** Ends the input; resolves to the exit code. */
  end(): Promise<number | null>
}

/** A program and its arguments; by default `gas mcp`. */
export type ProgramAndArguments = readonly [program: string, ...args: string[]]

export function startStdioMcpProcess(
  t: Pick<TAP, 'teardown' | 'comment'>,
  env: Readonly<Record<string, string>>,
  [program, ...args]: ProgramAndArguments = [process.execPath, ...serviceProgramArgs('cli'), 'mcp'],
): StdioMcpProcess {
  const child = spawn(program, args, {
    cwd: REPOSITORY_ROOT,
    env: { PATH: process.env['PATH'], ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const messages: StdioMcpMessage[] = []
  const waiting = new Set<() => void>()
  createInterface({ input: child.stderr }).on('line', (line) => t.comment(line))
  createInterface({ input: child.stdout }).on('line', (line) => {
    messages.push(JSON.parse(line) as StdioMcpMessage)
    for (const check of waiting) check()
  })
  const exited = once(child, 'exit')
  let count = 0
  const answerTo = (id: string | number) =>
    new Promise<StdioMcpMessage>((resolve) => {
      const check = () => {
        const answer = messages.find((message) => message.id === id)
        if (answer === undefined) return
        waiting.delete(check)
        resolve(answer)
      }
      waiting.add(check)
      check()
    })
  const writeLine = (message: object | string) =>
    void child.stdin.write(`${typeof message === 'string' ? message : JSON.stringify(message)}\n`)
  return {
    messages,
    writeLine,
    answerTo,
    ask(method, params = {}) {
      const id = `r${(count += 1)}`
      writeLine({ jsonrpc: '2.0', id, method, params })
      return answerTo(id)
    },
    async end() {
      child.stdin.end()
      const [code] = (await exited) as [number | null]
      return code
    },
  }
}
