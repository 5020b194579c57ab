import { SECOND } from '../../core/clock.ts'
import { createWorkerPool } from '../../core/concurrency/worker-pool.ts'
import { invalidInputError, ServiceError } from '../../core/errors.ts'
import type { ValidationIssue } from '../../core/validation/validation-errors.ts'
import type { CommunityToolDefinition } from '../../domain/community-tool-record.ts'
import type { ListedMcpToolsPage } from '../../providers/mcp/mcp-streamable-http-client.ts'
import type { SelectedOperations, OpenApiSource } from '../import/imported-openapi-operations.ts'
import type { BuilderReply, BuilderVerdict } from './builder-answer.ts'
import type { ConvertedDefinition, UntrustedWorkRequest } from './untrusted-worker.ts'

/**
 * Work on documents, schemas, patterns and answers of strangers, in worker processes (decision 381). Calls have their
 * own ones, apart from registrations and imports (decision 484). `owner` or the builder is whose work it is: it has one
 * place among either. Rejects with a problem for what takes too much time or memory, and with `unavailable`
 * when too much waits.
 */
export interface UntrustedWork {
  /** Throws `invalid_input` for a definition that is not acceptable, or that breaks what `before` promised. */
  check(
    owner: string,
    definition: CommunityToolDefinition,
    before: CommunityToolDefinition | null,
  ): Promise<void>
  /** Returns what is wrong with a value; `schema` is JSON text. */
  validate(builderId: string, schema: string, value: unknown): Promise<readonly ValidationIssue[]>
  judge(builderId: string, schema: string, reply: BuilderReply): Promise<BuilderVerdict>
  /** Returns the operations that an import names; throws `import_refused`. */
  listOperations(
    owner: string,
    source: OpenApiSource,
    include: readonly string[] | null,
  ): Promise<SelectedOperations>
  convertOperation(
    owner: string,
    request: Pick<WorkOf<'convert'>, 'source' | 'at' | 'category'>,
  ): Promise<ConvertedDefinition>
  readMcpPage(owner: string, reply: WorkOf<'mcp-page'>['reply']): Promise<ListedMcpToolsPage>
  convertMcpTool(
    owner: string,
    request: Pick<WorkOf<'mcp-tool'>, 'url' | 'tool' | 'category'>,
  ): Promise<ConvertedDefinition>
  close(): Promise<void>
}

type WorkOf<T extends UntrustedWorkRequest['type']> = Extract<UntrustedWorkRequest, { type: T }>

const schemaTexts = new WeakMap<object, string>()

/** The text of a schema that lives as long as its tool. */
export function schemaTextOf(schema: object): string {
  const known = schemaTexts.get(schema) ?? JSON.stringify(schema)
  schemaTexts.set(schema, known)
  return known
}

export interface UntrustedWorkSettings {
  readonly size?: number
  readonly deadlineMs?: number
}

const MAX_WAITING = 4_096
const MAX_WAITING_OF_OWNER = 64
/** Inputs and answers of a builder's tools; it has at most `communityCallsInFlight` answers. */
const MAX_WAITING_OF_TOOLS = 256
/** Of a document or a definition. */
const DEADLINE_MS = 5 * SECOND
/** Of one value, whose steps are counted, and of the compilation of its schema: anybody may send one for nothing. */
const CALL_DEADLINE_MS = 2 * SECOND
/** The program is beside this file and, like it, built or source. */
const PROGRAM = new URL(
  import.meta.url.endsWith('.ts') ? './untrusted-worker.ts' : './untrusted-worker.js',
  import.meta.url,
).href

export function createUntrustedWork(settings: UntrustedWorkSettings = {}): UntrustedWork {
  const { size, deadlineMs } = settings
  const createPool = (limitMs: number, maxWaitingOfOwner: number) =>
    createWorkerPool<UntrustedWorkRequest>({
      program: PROGRAM,
      size,
      deadlineMs: deadlineMs ?? limitMs,
      maxWaiting: MAX_WAITING,
      maxWaitingOfOwner,
      exhausted: tooMuchWorkError,
    })
  const calls = createPool(CALL_DEADLINE_MS, MAX_WAITING_OF_TOOLS)
  const changes = createPool(DEADLINE_MS, MAX_WAITING_OF_OWNER)
  const run = async <Answer>(owner: string, request: UntrustedWorkRequest) =>
    (await changes.run(request, { owner })) as Answer
  const runCall = async <Answer>(owner: string, request: UntrustedWorkRequest) =>
    (await calls.run(request, { owner })) as Answer
  return {
    check: (owner, definition, before) => run(owner, { type: 'check', definition, before }),
    validate: (builderId, schema, value) =>
      runCall(builderId, { type: 'validate', schema, value: JSON.stringify(value) }),
    judge: (builderId, schema, reply) => runCall(builderId, { type: 'judge', schema, reply }),
    listOperations: (owner, source, include) => run(owner, { type: 'list', source, include }),
    convertOperation: (owner, request) => run(owner, { type: 'convert', ...request }),
    readMcpPage: (owner, reply) => run(owner, { type: 'mcp-page', reply }),
    convertMcpTool: (owner, request) => run(owner, { type: 'mcp-tool', ...request }),
    close: async () => void (await Promise.all([calls.close(), changes.close()])),
  }
}

function tooMuchWorkError({ type }: UntrustedWorkRequest, cause: Error): Error {
  const detail = 'takes too much time or memory to be checked'
  if (type === 'judge')
    return new ServiceError('upstream_error', { reason: 'answer_too_complex' }, cause)
  if (type === 'check' || type === 'validate') return invalidInputError('', detail)
  return new ServiceError('import_refused', { detail: `The document ${detail}.` }, cause)
}
