/** Errors of calls, receipts, attestations and the journal: a part of the table in `errors.ts`. */
export const CALL_AND_RECEIPT_ERROR_DEFINITIONS = {
  call_not_found: { status: 404, title: 'There is no such call.' },
  journal_archive_unavailable: {
    status: 503,
    title: 'These versions are in a file that this station cannot read.',
    remedy: { action: 'contact_operator' },
  },
  cursor_of_another_history: {
    status: 410,
    title: 'This cursor is from before the database was restored: start again without it.',
  },
  receipt_not_found: { status: 404, title: 'This is no receipt of this service.' },
  leaf_not_found: { status: 404, title: 'The tree of this head has no such fee.' },
  head_ahead_of_ledger: {
    status: 409,
    title:
      'This head has more fees than the ledger: it is not of this station, or its ledger was set back.',
  },
} as const
