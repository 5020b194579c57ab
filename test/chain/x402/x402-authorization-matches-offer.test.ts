import t from 'tap'
import { PAYMENT_NETWORKS } from '../../../chain/payment-networks.ts'
import { X402_EXACT_PROXY_ADDRESS } from '../../../chain/evm/permit2.ts'
import {
  SAMPLE_OFFER_TOOL_DEADLINE_MS,
  FIXED_NOW_MS,
  paymentProblemOf,
  FIXED_NOW_SECONDS,
} from '../../support/payments/sample-payment-offer.ts'
import {
  sampleX402V2Payment,
  sampleX402Permit2Payment,
  readSampleX402Payment,
  sampleX402Payload,
  SAMPLE_X402_SIGNATURE,
  sampleX402Permit2Authorization,
  X402_PAYER,
  sampleX402Eip3009Authorization,
  sampleX402V1Payment,
  NORMALIZED_X402_PAYMENT,
} from '../../support/payments/sample-x402-payments.ts'

t.test('recipient, amount and times of an authorization must match the offer', async (t) => {
  const name = (part: string) => `invalid_exact_evm_${part}`
  const earliest = FIXED_NOW_SECONDS + SAMPLE_OFFER_TOOL_DEADLINE_MS / 1000 + 45
  const table: [string, object, string | null][] = [
    ['recipient', { to: X402_PAYER }, name('recipient_mismatch')],
    ['underpaid', { value: '29999' }, name('payload_authorization_value_mismatch')],
    ['overpaid', { value: '30001' }, name('payload_authorization_value_mismatch')],
    ['nothing', { value: '0' }, name('payload_authorization_value_mismatch')],
    ['leading zeros', { value: '00030000' }, null],
    [
      'valid from now',
      { validAfter: `${FIXED_NOW_SECONDS}` },
      name('payload_authorization_valid_after'),
    ],
    ['valid since a second', { validAfter: `${FIXED_NOW_SECONDS - 1}` }, null],
    [
      'valid later',
      { validAfter: `${FIXED_NOW_SECONDS + 9}` },
      name('payload_authorization_valid_after'),
    ],
    [
      'expired',
      { validBefore: `${FIXED_NOW_SECONDS - 1}` },
      name('payload_authorization_valid_before'),
    ],
    [
      'ends too early',
      { validBefore: `${earliest - 1}` },
      name('payload_authorization_valid_before'),
    ],
    ['ends in time', { validBefore: `${earliest}` }, null],
    ['ends in an hour', { validBefore: `${FIXED_NOW_SECONDS + 3600}` }, null],
    [
      'ends too late',
      { validBefore: `${FIXED_NOW_SECONDS + 3601}` },
      name('payload_authorization_valid_before'),
    ],
  ]
  for (const [what, change, reason] of table) {
    const signed = {
      ...sampleX402Payload,
      authorization: { ...sampleX402Eip3009Authorization, ...change },
    }
    for (const document of [
      { ...sampleX402V2Payment, payload: signed },
      { ...sampleX402V1Payment, payload: signed },
    ]) {
      if (reason === null) t.match(await readSampleX402Payment(document), { amount: 30_000n }, what)
      else
        t.strictSame(await paymentProblemOf(readSampleX402Payment(document)), [402, reason], what)
    }
  }
})

t.test('times are rounded against the payer', async (t) => {
  const end = FIXED_NOW_SECONDS + SAMPLE_OFFER_TOOL_DEADLINE_MS / 1000 + 45
  const signed = {
    ...sampleX402Payload,
    authorization: { ...sampleX402Eip3009Authorization, validBefore: `${end}` },
  }
  const late = { now: FIXED_NOW_MS + 1 }
  t.strictSame(
    await paymentProblemOf(
      readSampleX402Payment({ ...sampleX402V2Payment, payload: signed }, late),
    ),
    [402, 'invalid_exact_evm_payload_authorization_valid_before'],
  )
})

t.test('Permit2 on BSC uses 18 decimals', async (t) => {
  t.strictSame(await readSampleX402Payment(sampleX402Permit2Payment()), {
    ...NORMALIZED_X402_PAYMENT,
    rail: 'x402',
    wire: 'v2',
    chain: 'eip155:56',
    asset: '0x8ac76a51cc950d9822d68b83fe1ad97b32cd580d',
    amount: 30_000n * 10n ** 12n,
    nonce: '7',
    proof: {
      kind: 'permit2',
      signature: SAMPLE_X402_SIGNATURE,
      spender: X402_EXACT_PROXY_ADDRESS.toLowerCase(),
      deadline: BigInt(FIXED_NOW_SECONDS + 300),
    },
  })
  t.match(
    await readSampleX402Payment({
      ...sampleX402Permit2Payment(),
      accepted: undefined,
      x402Version: 1,
      scheme: 'exact',
      network: 'bsc',
    }),
    {
      wire: 'v1',
      chain: 'eip155:56',
    },
  )
  const { permitted, witness } = sampleX402Permit2Authorization
  const table: [object, string][] = [
    [{ spender: X402_PAYER }, 'invalid_permit2_spender'],
    [{ witness: { ...witness, to: X402_PAYER } }, 'invalid_permit2_recipient_mismatch'],
    [{ permitted: { ...permitted, amount: '30000' } }, 'permit2_amount_mismatch'],
    [{ permitted: { ...permitted, token: PAYMENT_NETWORKS.base.asset } }, 'permit2_token_mismatch'],
    [{ deadline: `${FIXED_NOW_SECONDS + 60}` }, 'permit2_deadline_expired'],
    [{ deadline: `${FIXED_NOW_SECONDS + 3601}` }, 'permit2_deadline_expired'],
    [{ witness: { ...witness, validAfter: `${FIXED_NOW_SECONDS}` } }, 'permit2_not_yet_valid'],
  ]
  for (const [change, reason] of table) {
    t.strictSame(await paymentProblemOf(readSampleX402Payment(sampleX402Permit2Payment(change))), [
      402,
      reason,
    ])
  }
  t.strictSame(
    await paymentProblemOf(readSampleX402Payment(sampleX402Permit2Payment({ nonce: '0x07' }))),
    [400, 'invalid_payload'],
  )
})
