import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import type { Socket } from 'node:net'

/** A running anvil node. */
export interface AnvilNode {
  readonly rpcUrl: string
  stop(): Promise<void>
}

const READY = /Listening on (127\.0\.0\.1:\d+)/
const START_MS = 20_000

/** npm package suffixes for Node's architectures. */
const CPU: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' }

/**
 * Path of the binary that npm installed for this machine; its launcher would only add a process.
 */
function binary(): string {
  const { platform, arch } = process
  const name = `@foundry-rs/anvil-${platform}-${CPU[arch] ?? arch}`
  try {
    const anvil = import.meta.resolve('@foundry-rs/anvil/package.json')
    const folder = dirname(createRequire(anvil).resolve(`${name}/package.json`))
    return join(folder, 'bin', platform === 'win32' ? 'anvil.exe' : 'anvil')
  } catch (cause) {
    throw new Error(`the local chain needs ${name}: npm install`, { cause })
  }
}

/**
 * Stops the node when this process ends in any way, because the shell's stdin then closes. `$!` is
 * the node; `wait` returns its exit code. The shell ignores Ctrl-C, which reaches every process of
 * a terminal, so that it can still stop the node.
 */
const SUPERVISOR_SCRIPT = `trap '' INT
exec 3<&0
"$0" "$@" 3<&- </dev/null &
node=$!
(cat <&3 >/dev/null; kill -9 $node) 2>/dev/null >/dev/null &
wait $node`

function launch(args: readonly string[]): ChildProcess {
  const stdio = ['pipe', 'pipe', 'pipe'] as ['pipe', 'pipe', 'pipe']
  if (process.platform !== 'win32') {
    return spawn('/bin/sh', ['-c', SUPERVISOR_SCRIPT, binary(), ...args], { stdio })
  }
  const child = spawn(binary(), args, { stdio })
  process.once('exit', () => child.kill())
  return child
}

/** Starts a node on a free port. It does not keep this process alive and ends with it. */
export async function startAnvilNode(options: readonly string[]): Promise<AnvilNode> {
  const child = launch(['--host', '127.0.0.1', '--port', '0', ...options])
  const exited = once(child, 'exit')
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.ref()
    if (process.platform === 'win32') child.kill()
    child.stdin?.end()
    await exited
  }
  try {
    const address = await waitForListening(child)
    unrefProcess(child)
    return { rpcUrl: `http://${address}`, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

/** The address in the node's startup output. */
function waitForListening(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = ''
    const fail = (why: string) =>
      reject(new Error(`the local chain did not start: ${why}\n${said}`))
    const timer = setTimeout(fail, START_MS, `nothing after ${START_MS} ms`)
    const listen = (text: Buffer) => {
      said += text.toString()
      const [, address] = READY.exec(said) ?? []
      if (address === undefined) return
      clearTimeout(timer)
      child.stdout?.off('data', listen).resume()
      resolve(address)
    }
    child.stdout?.on('data', listen)
    child.stderr?.on('data', (text: Buffer) => (said += text.toString().slice(0, 4_000)))
    child.once('error', (error) => fail(error.message))
    child.once('exit', (code) => {
      clearTimeout(timer)
      fail(`it ended with ${code}`)
    })
  })
}

function unrefProcess(child: ChildProcess): void {
  child.unref()
  for (const stream of [child.stdin, child.stdout, child.stderr]) (stream as Socket | null)?.unref()
}
