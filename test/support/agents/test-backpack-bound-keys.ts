import type { TestReply, TestRequestOptions } from '../http/test-http-client.ts'
import type { TestAgent, TestStation } from '../station/start-test-station.ts'

/** Creates a Backpack of an agent and returns its id. */
export async function createAgentBackpack(
  node: TestStation,
  { key }: TestAgent,
  json: object = {},
): Promise<string> {
  const body = { agent_name: 'packed', ...json }
  const made = await node.ask('POST', '/api/backpack/create', { key, json: body })
  return String(made.body['backpack_id'])
}

/** A key bound to a Backpack, in the form of a test agent. */
export interface BackpackKeyTestAgent extends TestAgent {
  readonly keyId: string
  readonly reply: TestReply
}

export async function createBackpackBoundKey(
  node: TestStation,
  owner: TestAgent,
  backpackId: string,
  json: object = {},
): Promise<BackpackKeyTestAgent> {
  const body = { backpack_id: backpackId, ...json }
  const reply = await node.ask('POST', '/api/keys', { key: owner.key, json: body })
  return {
    id: owner.id,
    key: String(reply.body['api_key']),
    keyId: String(reply.body['id']),
    reply,
  }
}

/** Sends requests with the key of an agent. */
export const createAgentKeyRequester =
  (node: TestStation, { key }: TestAgent) =>
  (
    method: string,
    path: string,
    json?: object,
    more: TestRequestOptions = {},
  ): Promise<TestReply> =>
    node.ask(method, path, { key, ...(json === undefined ? {} : { json }), ...more })
