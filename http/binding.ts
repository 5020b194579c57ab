import type { FastifyRequest } from 'fastify'
import { invalid, ServiceError } from '../core/errors.ts'
import { isId } from './schemas.ts'

type Asking = Pick<FastifyRequest, 'apiKey' | 'headers'>

/**
 * The Backpack a request acts in: the one of its header `x-backpack-id`, else the one its key is bound
 * to; null for none. Rejects a header that is no id (400), and one that names another Backpack than
 * the binding of the key (403). The refusal is the same whether the other Backpack exists or not.
 */
export function backpackOf({ apiKey, headers }: Asking): string | null {
  const header = headers['x-backpack-id']
  const bound = apiKey?.backpackId ?? null
  if (header === undefined) return bound
  if (!isId(header)) throw invalid('/headers/x-backpack-id', 'must be the id of a Backpack')
  if (bound === null || header === bound) return header
  throw outsideBinding(bound, header)
}

/** The refusal of a bound key that names a Backpack other than its own. */
export const outsideBinding = (bound: string, asked: string): ServiceError =>
  new ServiceError('key_bound', {
    detail: `This key acts in Backpack ${bound} only, and the request names ${asked}.`,
    backpack_id: bound,
    asked_backpack_id: asked,
  })

/** Rejects (403) a key that is bound to a Backpack. `deed` completes "cannot". */
export function assertUnbound({ apiKey }: Pick<Asking, 'apiKey'>, deed: string): void {
  const bound = apiKey?.backpackId ?? null
  if (bound === null) return
  const detail = `A key that is bound to a Backpack cannot ${deed}.`
  throw new ServiceError('key_bound', { detail, backpack_id: bound })
}
