/** Aggregates to load before spending in a Backpack. A revoked Backpack is still readable from Postgres. */
export const toBackpackPreloadOptions = (backpackId: string | null) => ({
  touch: backpackId === null ? [] : [{ kind: 'backpack' as const, id: backpackId }],
})
