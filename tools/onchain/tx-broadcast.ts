import Type from 'typebox'
import { invalidInputError } from '../../core/errors.ts'
import { fromUsdc } from '../../core/money.ts'
import type { ReadableChainName, EvmHex } from '../../providers/chain-data/chain-data-port.ts'
import {
  ChainNameField,
  liveOrFixtureModeOfChain,
  NetworkKindField,
  NullableText,
} from '../../providers/chain-data/chain-tool-schemas.ts'
import { chainReadToolAvailability } from '../tool-availability.ts'
import { defineTool, type ToolPreflightContext } from '../define-tool.ts'

/** The tool `tx-broadcast`: sends a signed transaction. */

const MAX_RAW_TX_CHARS = 2 * 131_072

/** Decodes the transaction and checks that it is for this chain. */
async function decodeForChain(
  { chain: name, raw_tx }: { chain: ReadableChainName; raw_tx: string },
  { chain }: Pick<ToolPreflightContext, 'chain'>,
) {
  const signed = await chain.decode(raw_tx as EvmHex)
  const { chainId } = chain.about(name)
  if (signed.chainId === chainId) return signed
  throw invalidInputError(
    '/raw_tx',
    `is signed for chain ${signed.chainId}, and ${name} is chain ${chainId}`,
  )
}

export default defineTool({
  slug: 'tx_broadcast',
  name: 'Transaction Broadcaster',
  category: 'onchain',
  description:
    'Sends a transaction you have signed. A transaction that is already on the chain counts as sent; a rejected one is not charged.',
  tags: ['evm', 'broadcast', 'base', 'ethereum'],
  useCases: [
    'Send a signed transfer',
    'Send a transaction again that may have been lost',
    'Submit without an RPC of your own',
  ],
  // A zero transfer to itself, by the last of anvil's ten public test accounts.
  examples: [
    {
      chain: 'base',
      raw_tx:
        '0x02f86d82210580843b9aca008504a817c80082520894a0ee7a142d267c1f36714e4a8f75612f20a797208080c080a00a8dffcb7d1092780767f9d2e1b7442d432a69ecf2933c674d7559295020fccda05b9eece1bab5d3760cc22e1b0f5a18f20026f861f9d461b9ef40dfde47fcdfd6',
    },
  ],
  access: 'paid',
  price: fromUsdc(0.08),
  effect: 'external',
  actsOnOthers: true,
  timeoutMs: 20_000,
  input: Type.Object(
    {
      chain: ChainNameField,
      raw_tx: Type.String({
        pattern: '^0x([0-9a-fA-F]{2})+$',
        maxLength: MAX_RAW_TX_CHARS,
        description: 'The signed transaction, serialized, in hex.',
      }),
    },
    { additionalProperties: false },
  ),
  output: Type.Object({
    tx_hash: Type.String(),
    status: Type.Enum(['accepted', 'already_known', 'included'] as const),
    from: Type.String(),
    to: NullableText,
    nonce: Type.Integer(),
    value_wei: Type.String(),
    block_number: Type.Union([Type.Integer(), Type.Null()]),
    explorer_url: NullableText,
    chain: Type.String(),
    chain_id: Type.Integer(),
    network: NetworkKindField,
  }),
  availability: chainReadToolAvailability,
  async preflight(input, asking) {
    await decodeForChain(input, asking)
  },
  async run(input, context) {
    const { chain, meter, seal, emit } = context
    const { hash, from, to, nonce, value } = await decodeForChain(input, context)
    const { chainId, network, explorer } = chain.about(input.chain)
    seal({ tx_hash: hash })
    emit({ type: 'progress', step: 'sending', note: hash })
    const { status, block } = await chain.send(input.chain, input.raw_tx as EvmHex, hash)
    meter.served(`rpc:${input.chain}`, liveOrFixtureModeOfChain(chain, input.chain))
    return {
      tx_hash: hash,
      status,
      from,
      to,
      nonce,
      value_wei: String(value),
      block_number: block === null ? null : Number(block),
      explorer_url: network === 'mainnet' ? `${explorer}${hash}` : null,
      chain: input.chain,
      chain_id: chainId,
      network,
    }
  },
})
