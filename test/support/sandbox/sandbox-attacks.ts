import type { SandboxLanguage } from '../../../providers/sandbox/sandbox-port.ts'

/** Programs that try to escape or exhaust the sandbox. */

export interface SandboxAttack {
  readonly name: string
  readonly code: string
  /** Expected end: this error or this value. A timeout counts as an error. */
  readonly error?: RegExp
  readonly result?: unknown
  readonly timeout?: number
}

export const TIMED_OUT_PATTERN = /timed out/
const endlessLoopAttack = (name: string, code: string): SandboxAttack => ({
  name,
  code,
  error: TIMED_OUT_PATTERN,
  timeout: 500,
})

export const sandboxAttacks = (
  port: number,
): Record<SandboxLanguage, readonly SandboxAttack[]> => ({
  javascript: [
    endlessLoopAttack('an endless loop', 'while(1){}'),
    { name: 'an array bomb', code: 'let a=[];while(1)a.push(Array(1e5).fill(1))', error: /memory/ },
    { name: 'an object bomb', code: 'let a=[];while(1)a.push({x:[1,2]})', error: /memory/ },
    { name: 'endless recursion', code: 'function f(){return f()+1};f()', error: /stack|recursion/ },
    { name: 'a long string', code: '"x".repeat(1e9)', error: /memory/ },
    endlessLoopAttack('a catastrophic regex', '/^(a+)+$/.test("a".repeat(40)+"b")'),
    {
      name: 'names of Node',
      code: '[typeof process, typeof require, typeof fetch, typeof WebAssembly, typeof Buffer].join()',
      result: 'undefined,undefined,undefined,undefined,undefined',
    },
    { name: 'a module of Node', code: 'import("fs")', error: /could not load/ },
    {
      name: 'the constructor of functions',
      code: '(function(){}).constructor("return process.env")()',
      error: /not defined/,
    },
  ],
  bash: [
    { name: 'an endless loop', code: 'while :; do :; done', error: /too many/, timeout: 1_000 },
    { name: 'a fork bomb', code: ':(){ :|:& };:', error: /recursion|too many/ },
    { name: 'string doubling', code: 'x=a; while :; do x=$x$x; done', error: /limit/ },
    {
      name: 'endless output',
      code: 'while :; do echo yyyyyyyy; done',
      error: /limit|many/,
      timeout: 1_000,
    },
    { name: 'a wide format', code: 'printf "%1000000000d" 1', error: /limit/ },
    { name: 'an awk loop', code: "awk 'BEGIN{while(1){}}'", error: /maximum/ },
    { name: 'a brace bomb', code: 'echo {1..10000000}', error: /limit/ },
    {
      name: 'an eval bomb',
      code: 'x=\'eval "$x"\'; eval "$x"',
      error: /memory|many/,
      timeout: 1_000,
    },
    { name: 'the users of the machine', code: 'cat /etc/passwd', error: /No such file/ },
    {
      name: 'the environment',
      code: 'cat /proc/*/environ 2>/dev/null; env | grep -ci -e master -e node -e database',
      error: /./,
    },
    { name: 'the network', code: `curl http://127.0.0.1:${port}`, error: /not found/ },
  ],
  python: [
    endlessLoopAttack('an endless loop', 'while True: pass'),
    { name: 'a list bomb', code: 'a=[]\nwhile True: a.append("x"*1000000)', error: /MemoryError/ },
    { name: 'a long string', code: '"a" * 10**10', error: /OverflowError|MemoryError/ },
    { name: 'a large buffer', code: 'bytearray(10**9)', error: /MemoryError/ },
    { name: 'a fork', code: 'import os; os.fork()', error: /OSError/ },
    {
      name: 'a socket',
      code: `import socket\nsocket.create_connection(("127.0.0.1", ${port})).send(b"x")`,
      error: /OSError/,
    },
    { name: 'the users of the machine', code: 'open("/etc/passwd").read()', error: /FileNotFound/ },
    {
      name: 'the file system and the environment',
      code: 'import os\n[sorted(os.environ), sorted(os.listdir("/"))]',
      result: [['HOME'], ['dev', 'home', 'lib', 'proc', 'tmp']],
    },
    {
      name: 'deep recursion',
      code: 'import sys\nsys.setrecursionlimit(10**9)\ndef f(): return f()\nf()',
      error: /stack|Recursion/,
    },
    { name: 'ctypes', code: 'import ctypes', error: /ModuleNotFoundError/ },
    { name: 'a process', code: 'import subprocess; subprocess.run(["ls"])', error: /OSError/ },
    { name: 'a shell', code: 'import os; os.system("ls") == 0', result: false },
    {
      name: 'a thread',
      code: 'import threading; threading.Thread(target=print).start()',
      error: /RuntimeError/,
    },
    { name: 'the page around it', code: 'import js', error: /ModuleNotFoundError/ },
    { name: 'its own library', code: 'open("/lib/python313.zip", "wb").write(b"") ', result: 0 },
    { name: 'an exit', code: 'import os; os._exit(3)', error: /exit code 3/ },
  ],
})
