import Type from 'typebox'
import { LIMITS } from '../../core/limits.ts'
import { fromUsdc } from '../../core/money.ts'
import { NOT_BLANK_PATTERN } from '../../core/validation/request-schema-regex-patterns.ts'
import { defineTool, callerIdOf } from '../define-tool.ts'
import { SANDBOX_ISOLATION_LEVELS } from '../../providers/sandbox/sandbox-port.ts'

/** The tool `code-sandbox`: runs a program in isolation. */

const DEFAULT_TIMEOUT_MS = 5_000
const MAX_TIMEOUT_MS = 10_000

export default defineTool({
  slug: 'code_sandbox',
  name: 'Code Sandbox',
  category: 'compute',
  description:
    'Runs Python 3.13, JavaScript or Bash in a disposable sandbox without network, files or environment; exceptions and timeouts are results.',
  tags: ['code', 'python', 'javascript', 'bash', 'compute'],
  useCases: ['Compute something exactly', 'Transform data', 'Try code before trusting it'],
  examples: [
    { code: 'import math\nprint("hello")\nmath.comb(52, 5)' },
    { code: '[3, 1, 2].sort().map(n => n * n)', language: 'javascript' },
    { code: 'printf "b\\na\\n" | sort', language: 'bash', timeout_ms: 2_000 },
  ],
  access: 'paid',
  price: fromUsdc(0.05),
  effect: 'none',
  // Covers the queue, a slow host start and the program.
  timeoutMs: 60_000,
  input: Type.Object(
    {
      code: Type.String({
        minLength: 1,
        maxLength: LIMITS.largeBodyBytes,
        pattern: NOT_BLANK_PATTERN,
      }),
      language: Type.Optional(Type.Enum(['python', 'javascript', 'bash'], { default: 'python' })),
      timeout_ms: Type.Optional(
        Type.Integer({ minimum: 100, maximum: MAX_TIMEOUT_MS, default: DEFAULT_TIMEOUT_MS }),
      ),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    stdout: Type.String(),
    stderr: Type.String(),
    result: Type.Unknown({
      description:
        'Python: the last expression, or the variable `result`. JavaScript: the completion value, with promises resolved. Bash: the exit code. JSON, or text for other values.',
    }),
    error: Type.Union([Type.String(), Type.Null()], {
      description: 'The exception, the timeout or the limit that ended it.',
    }),
    execution_time_ms: Type.Integer({ minimum: 0 }),
    success: Type.Boolean(),
    isolation: Type.Enum([...SANDBOX_ISOLATION_LEVELS], {
      description:
        'Isolation by the operating system, in addition to the interpreter and the permission model.',
    }),
    truncated: Type.Optional(Type.Boolean({ description: 'Output beyond the limit was dropped.' })),
  }),
  availability({ sandbox }) {
    const { isolation, allowed, starts } = sandbox.level()
    const requires = allowed ? [] : ['bubblewrap']
    const mode = isolation ?? (starts ? 'untried' : 'none')
    return { available: allowed && starts, mode, requires, providers: [] }
  },
  preflight: (_input, { sandbox }) => sandbox.check(),
  async run({ code, language = 'python', timeout_ms: timeoutMs = DEFAULT_TIMEOUT_MS }, context) {
    const { sandbox, signal, callerGone: waiting, caller, emit } = context
    const job = { owner: callerIdOf(caller), language, code, timeoutMs }
    const ran = await sandbox.run(
      job,
      { signal, waiting },
      {
        onStart: () => emit({ type: 'progress', step: 'program', note: 'begun' }),
        onOutput: (delta) => emit({ type: 'text', delta }),
      },
    )
    return {
      stdout: ran.stdout,
      stderr: ran.stderr,
      result: ran.result,
      error: ran.error,
      execution_time_ms: ran.ms,
      success: ran.error === null,
      isolation: ran.isolation,
      ...(ran.truncated ? { truncated: true } : {}),
    }
  },
})
