/** Errors of calls, receipts and attestations: a part of the table in `errors.ts`. */
export const RECEIPT_ERROR_DEFINITIONS = {
  call_not_found: { status: 404, title: 'There is no such call.' },
  receipt_not_found: { status: 404, title: 'This is no receipt of this service.' },
  leaf_not_found: { status: 404, title: 'The tree of this head has no such fee.' },
  head_ahead_of_ledger: {
    status: 409,
    title:
      'This head has more fees than the ledger: it is not of this station, or its ledger was set back.',
  },
} as const
