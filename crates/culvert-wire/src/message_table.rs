//! How the tables of messages become types.

/// Declares an enumeration of messages: for each its number, since which minor version it exists,
/// and its parts in the order in which they are sent.
macro_rules! messages {
    (
        $(#[$enum_meta:meta])*
        pub enum $enum:ident<'a> {
            $(
                $(#[$meta:meta])*
                $variant:ident = $number:literal since $since:literal { $($field:ident : $type:ty),* $(,)? }
            )*
        }
        $(otherwise $rest:pat => { $($other:tt)* })?
    ) => {
        $(#[$enum_meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $enum<'a> {
            $(
                $(#[$meta])*
                $variant {
                    $(
                        #[doc = concat!("The `", stringify!($field), "` part.")]
                        $field: $type,
                    )*
                },
            )*
            $($($other)*)?
        }

        impl<'a> $enum<'a> {
            /// Every message of the table: its name, its number, the minor version that brought it
            /// (31: this or an earlier one).
            pub const TABLE: &'static [(&'static str, u32, u32)] =
                &[$((stringify!($variant), $number, $since)),*];

            /// Takes the parts of message `number`; none when the table has no such number.
            fn take(
                number: u32,
                input: &mut $crate::input::Input<'a>,
            ) -> Result<Option<Self>, $crate::Malformed> {
                Ok(Some(match number {
                    $($number => Self::$variant { $($field: $crate::field::Field::take(input)?),* },)*
                    _ => return Ok(None),
                }))
            }

            /// Adds the parts; gives the message's number, none for what the table does not hold.
            fn put(
                &self,
                message: &mut $crate::Message<'a>,
                protocol: &$crate::Protocol,
            ) -> Option<u32> {
                match self {
                    $(Self::$variant { $($field),* } => {
                        $($crate::field::Field::put($field, message, protocol);)*
                        Some($number)
                    })*
                    $($rest => None,)?
                }
            }

            /// A message of each number that `protocol` has, made of `random`.
            #[cfg(test)]
            pub(crate) fn samples(
                random: &mut $crate::tests::Random,
                protocol: &$crate::Protocol,
            ) -> std::vec::Vec<Self> {
                let mut all = std::vec::Vec::new();
                $(if $since <= protocol.minor {
                    all.push(Self::$variant { $($field: $crate::tests::Sample::sample(random, protocol)),* });
                })*
                all
            }
        }
    };
}
pub(crate) use messages;
