import { ERROR_DEFINITIONS } from './errors.ts'
import type { ErrorDefinition, ErrorRemedy, ServiceError } from './errors.ts'
import { grantCliCommandText } from './credit-grant-cli-command-text.ts'

/** Properties of the station that a problem document depends on. */
export interface ProblemDocumentContext {
  /** Base of `type` and the remedy's URL; relative when empty. */
  readonly publicUrl: string
  /** Whether agents can be funded by deposits. If not, no remedy points to the funding page. */
  readonly deposits: boolean
}

/**
 * Builds the RFC 9457 document of an error and fills the placeholders of its remedy. Details come
 * first, so that they cannot overwrite fixed members.
 */
export function toProblemDocument(
  error: ServiceError,
  origin: ProblemDocumentContext,
  instance: string,
): Record<string, unknown> {
  const { title, status }: ErrorDefinition = ERROR_DEFINITIONS[error.code]
  const { detail, ...details } = error.details
  const remedy = resolveRemedy(error, origin)
  return {
    ...(remedy === undefined ? {} : { remedy }),
    ...details,
    type: `${origin.publicUrl}/problems/${error.code}`,
    title,
    status,
    detail: detail ?? title,
    instance,
    code: error.code,
    error: error.code,
  }
}

function resolveRemedy(
  { code, details }: ServiceError,
  { publicUrl, deposits }: ProblemDocumentContext,
) {
  const { agent_id: agentId } = details
  if (code === 'payment_required' && !deposits && typeof agentId === 'string') {
    // A grant adds promotional credits, which do not help when cash is required.
    if (details['promo_not_transferable'] === true) return undefined
    return { action: 'ask_operator', command: grantCliCommandText(agentId) }
  }
  if (code === 'cash_required' && !deposits) return undefined
  const { remedy }: ErrorDefinition = ERROR_DEFINITIONS[code]
  return remedy === undefined ? undefined : fillRemedyPlaceholders(remedy, details, publicUrl)
}

function fillRemedyPlaceholders(
  remedy: ErrorRemedy,
  details: Record<string, unknown>,
  baseUrl: string,
): Record<string, unknown> {
  if (remedy.url === undefined) return { ...remedy }
  const path = remedy.url.replace(/\{(\w+)\}/g, (whole, name: string) => {
    const value = details[name]
    return typeof value === 'string' ? encodeURIComponent(value) : whole
  })
  const url = `${baseUrl}${path}`
  if (remedy.body === undefined) return { ...remedy, url }
  const fields = Object.entries(remedy.body).map(([name, detail]) => [name, details[detail]])
  return { ...remedy, url, body: Object.fromEntries(fields) as Record<string, unknown> }
}
