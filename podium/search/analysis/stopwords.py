# ruff: noqa: RUF001 (Cyrillic letters are meant)
"""Stop words: function words that nearly every text contains. Other languages than these have none."""

from __future__ import annotations

_ENGLISH = """
a about above after again against all also am an and any are as at be because been before being below between both but
by can could did do does doing down during each few for from further had has have having he her here hers herself him
himself his how i if in into is it its itself just may me might more most must my myself no nor not now of off on once
only or other our ours ourselves out over own same shall she should so some such than that the their theirs them
themselves then there these they this those through to too under until up upon us very was we were what when where
which while who whom why will with would you your yours yourself yourselves
"""
_INDONESIAN = """
ada adalah adapun agar akan aku anda antara apa apakah apabila atas atau bagai bagaimana bagi bahwa banyak beberapa
belum berapa bila bisa boleh bukan dalam dan dapat dari daripada demikian dengan di dia dua hal hanya harus hingga ia
ialah ini itu jadi jika juga kalau kami kamu kapan karena ke kepada kita lagi lain lalu maka mana masih mereka merupakan
mungkin namun nya oleh pada para per pernah pula pun saat saja sampai sangat saya sebagai sebelum sebuah secara sedang
sehingga sejak selain selalu semua seorang seperti serta setelah setiap siapa suatu sudah supaya tanpa telah tentang
tersebut tetapi tiap tidak untuk yaitu yakni yang
"""
_RUSSIAN = """
а без более больше будет будто бы был была были было быть в вам вас вдруг ведь во вот впрочем все всегда всего всех
всю вы где да даже для до другой его ее ей ему если есть еще ж же за здесь и из или им иногда их к как какая какой
когда который которая которое которые кто куда ли либо между меня мне может можно мой моя мы на над надо нас не него
нее ней нельзя нет ни нибудь никогда ним них ничего но ну о об один он она они оно от перед по под после потом потому
почти при про с сам свой свою себе себя со так также такой там тем теперь то тогда того тоже только том тот ту ты у
уже хотя чего чем через что чтобы эта эти это этого этой этом этот эту я
"""
STOP_WORDS: dict[str, frozenset[str]] = {
    "english": frozenset(_ENGLISH.split()),
    "indonesian": frozenset(_INDONESIAN.split()),
    "russian": frozenset(_RUSSIAN.split()),
}
