import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, posix } from 'node:path'
import type { Worker } from 'node:worker_threads'
import t, { type Test } from 'tap'
import ts from 'typescript'
import { generatePrivateKey, privateKeyToAccount } from 'viem/accounts'
import { createSignerRecoveryPool } from '../../../chain/evm/signer-recovery-pool.ts'
import { REPOSITORY_ROOT } from '../../../scripts/repository-root.ts'

const DIGEST = '0xb9261686bffa6553e94ee2c6c3184ca7a3337c84f6144a1b5d1220fd75f6b9c0'
const SIGNATURE =
  '0x878650cc41316017c73b76c0fac66ef71335c1ce59f032845e2b0134691a992f02a1afaf8adc82021d75cb6e2de17a761c08b5bfb2abcb4c1889f26abf1431fe1b'
const SIGNER = '0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266'
const ORDER = 0xfffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141n

type Hex = `0x${string}`
const R = SIGNATURE.slice(2, 66)
const S = SIGNATURE.slice(66, 130)

t.test('many signers are recovered concurrently, each for its own signature', async (t) => {
  const pool = createSignerRecoveryPool({ size: 2 })
  t.teardown(pool.close)
  t.equal(await pool.recover(DIGEST, SIGNATURE), SIGNER)
  const accounts = Array.from({ length: 12 }, () => privateKeyToAccount(generatePrivateKey()))
  const signatures = await Promise.all(accounts.map((one) => one.sign({ hash: DIGEST })))
  t.strictSame(
    await Promise.all(signatures.map((signature) => pool.recover(DIGEST, signature))),
    accounts.map(({ address }) => address.toLowerCase()),
  )
  t.not(await pool.recover(`0x${'22'.repeat(32)}`, SIGNATURE), SIGNER, 'another digest')
})

t.test('a signature no token would accept has no signer', async (t) => {
  const pool = createSignerRecoveryPool({ size: 1 })
  t.teardown(pool.close)
  t.equal(await pool.recover(DIGEST, `0x${R}${S}00`), SIGNER, 'v of 0 is 27')
  t.not(await pool.recover(DIGEST, `0x${R}${S}01`), SIGNER, 'v of 1 is 28')
  const high = (ORDER - BigInt(`0x${S}`)).toString(16).padStart(64, '0')
  const none = '0'.repeat(64)
  const refused: Record<string, string> = {
    'high s, which recovers to the same signer': `0x${R}${high}1c`,
    'v of 29': `0x${R}${S}1d`,
    'v of 2': `0x${R}${S}02`,
    'v of 255': `0x${R}${S}ff`,
    'r of 0': `0x${none}${S}1b`,
    's of 0': `0x${R}${none}1b`,
    'r beyond the order': `0x${'f'.repeat(64)}${S}1b`,
    'r of no point': `0x${'0'.repeat(63)}5${S}1b`,
    '64 bytes': `0x${R}${S}`,
    '66 bytes': `0x${R}${S}1b00`,
    'no hexadecimal': `0x${'zz'.repeat(65)}`,
    nothing: '0x',
  }
  for (const [name, signature] of Object.entries(refused)) {
    t.equal(await pool.recover(DIGEST, signature as Hex), null, name)
  }
})

/** Node reports the start of a thread one tick late. */
const tick = () => new Promise((resolve) => setImmediate(resolve))

/** The threads that start from now on. */
function threadsOf(t: Test): Worker[] {
  const threads: Worker[] = []
  const note = (thread: Worker) => threads.push(thread)
  process.on('worker', note)
  t.teardown(() => process.off('worker', note))
  return threads
}

t.test('a crashed thread is replaced, and its jobs are run once more', async (t) => {
  const threads = threadsOf(t)
  const pool = createSignerRecoveryPool({ size: 1 })
  t.teardown(pool.close)
  const answers = [pool.recover(DIGEST, SIGNATURE), pool.recover(DIGEST, SIGNATURE)]
  await tick()
  await threads[0]?.terminate()
  t.strictSame(await Promise.all(answers), [SIGNER, SIGNER])
  t.equal(threads.length, 2)

  const doomed = t.rejects(pool.recover(DIGEST, SIGNATURE), /has ended/)
  await threads[1]?.terminate()
  await tick()
  await threads[2]?.terminate()
  await doomed
  t.equal(await pool.recover(DIGEST, SIGNATURE), SIGNER, 'the next job finds a new thread')
  t.equal(threads.length, 4)
})

t.test('threads start on demand, up to the maximum', async (t) => {
  const threads = threadsOf(t)
  const pool = createSignerRecoveryPool({ size: 2 })
  t.teardown(pool.close)
  t.equal(threads.length, 0)
  await pool.recover(DIGEST, SIGNATURE)
  t.equal(threads.length, 1)
  await Promise.all(Array.from({ length: 6 }, () => pool.recover(DIGEST, SIGNATURE)))
  t.equal(threads.length, 2)
})

t.test('a closed pool rejects new jobs and fails pending ones', async (t) => {
  const pool = createSignerRecoveryPool({ size: 1 })
  const pending = pool.recover(DIGEST, SIGNATURE)
  await Promise.all([t.rejects(pending, /has ended/), pool.close()])
  await t.rejects(pool.recover(DIGEST, SIGNATURE), /closed/)
  await pool.close()
})

/** A program that recovers one signer and leaves its pool open: it has to end by itself. */
const program = (pool: string) => `
import { createSignerRecoveryPool } from ${JSON.stringify(pool)}
process.stdout.write(String(await createSignerRecoveryPool().recover('${DIGEST}', '${SIGNATURE}')))`

t.test(
  'threads run from source and from built files, and do not keep the process alive',
  async (t) => {
    const folder = join(REPOSITORY_ROOT, '.cache', `recovery-${process.pid}`)
    t.teardown(() => rmSync(folder, { recursive: true, force: true }))
    const run = (name: string, pool: string, options: readonly string[]) => {
      const file = join(folder, name)
      writeFileSync(file, program(pool))
      const env = { ...process.env, NODE_OPTIONS: '', TAP: '0' }
      return execFileSync(process.execPath, [...options, file], { env, timeout: 30_000 }).toString()
    }
    build(folder, ['chain/evm/signer-recovery-pool.ts', 'chain/evm/signer-recovery-worker.ts'])
    t.equal(run('built.mjs', './chain/evm/signer-recovery-pool.js', []), SIGNER)
    t.equal(
      run('source.mts', join(REPOSITORY_ROOT, 'chain/evm/signer-recovery-pool.ts'), [
        '--import',
        'tsx',
      ]),
      SIGNER,
    )
  },
)

/** The build output of these files and of all that they import. */
function build(folder: string, entries: readonly string[]): void {
  const read = (file: string) => ts.sys.readFile(file)
  const { compilerOptions } = ts.readConfigFile(
    join(REPOSITORY_ROOT, 'tsconfig.build.json'),
    read,
  ).config
  const built = new Set<string>()
  const waiting = [...entries]
  for (let path = waiting.pop(); path !== undefined; path = waiting.pop()) {
    if (built.has(path)) continue
    built.add(path)
    const { outputText } = ts.transpileModule(readFileSync(join(REPOSITORY_ROOT, path), 'utf8'), {
      fileName: path,
      compilerOptions: { ...compilerOptions, target: 'es2023', module: 'esnext' },
    })
    for (const [, imported = ''] of outputText.matchAll(/from ["'](\.[^"']+)\.js["']/g))
      waiting.push(`${posix.join(posix.dirname(path), imported)}.ts`)
    const file = join(folder, path.replace(/\.ts$/, '.js'))
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, outputText)
  }
}
