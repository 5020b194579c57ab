import type { Answer, Asked } from './client.ts'
import type { Guest, Served } from './station.ts'

/** Creates a Backpack of an agent and returns its id. */
export async function backpackOf(node: Served, { key }: Guest, json: object = {}): Promise<string> {
  const body = { agent_name: 'packed', ...json }
  const made = await node.ask('POST', '/api/backpack/create', { key, json: body })
  return String(made.body['backpack_id'])
}

/** A key bound to a Backpack, as a guest of the same agent. */
export interface BoundGuest extends Guest {
  readonly keyId: string
  readonly made: Answer
}

export async function boundKey(
  node: Served,
  owner: Guest,
  backpackId: string,
  json: object = {},
): Promise<BoundGuest> {
  const body = { backpack_id: backpackId, ...json }
  const made = await node.ask('POST', '/api/keys', { key: owner.key, json: body })
  return { id: owner.id, key: String(made.body['api_key']), keyId: String(made.body['id']), made }
}

/** Asks with the key of a guest. */
export const asking =
  (node: Served, { key }: Guest) =>
  (method: string, path: string, json?: object, more: Asked = {}): Promise<Answer> =>
    node.ask(method, path, { key, ...(json === undefined ? {} : { json }), ...more })
